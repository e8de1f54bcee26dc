"""Arguments of scripts that take none: what is given is an error, before the long work begins."""

import argparse


def none(description: str | None) -> None:
    """Explain the script and exit 0 for `--help`; exit 2 for anything else."""
    argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
