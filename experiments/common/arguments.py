"""Arguments of scripts: wrong ones are an error before the long work begins; `--help` is the script's own text."""

import argparse


def parser(description: str | None) -> argparse.ArgumentParser:
    """For a script that says of itself, line by line, what it does."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def none(description: str | None) -> None:
    """Explain a script without arguments and exit 0 for `--help`; exit 2 for anything else."""
    parser(description).parse_args()
