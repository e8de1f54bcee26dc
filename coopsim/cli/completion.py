"""coopsim completion bash|zsh|tcsh: a script for the shell, made by shtab from the parser."""

import argparse

from coopsim.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise CoopsimError("completion needs shtab: pip install 'coopsim[completion]'") from None
    print(shtab.complete(args.parser, args.shell))
    return 0
