"""coopsim completion bash|zsh|tcsh: print a completion script, which shtab makes from the parser."""

import argparse

from coopsim.base.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise CoopsimError("completion needs shtab: pip install 'coopsim[completion]'") from None
    print(shtab.complete(args.parser, args.shell))
    return 0
