"""`python -m coopsim` is the command line."""

import sys

from coopsim.cli import main

if __name__ == "__main__":
    sys.exit(main())
