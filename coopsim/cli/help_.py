"""coopsim help [VERB]: print what `--help` does."""

import argparse


def run(args: argparse.Namespace) -> int:
    try:
        args.parser.parse_args([args.about, "--help"] if args.about else ["--help"])
    except SystemExit:
        return 0
    raise AssertionError("--help ends")
