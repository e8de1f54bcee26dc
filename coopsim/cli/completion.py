"""coopsim completion bash|zsh|tcsh: print a completion script, which shtab makes from the parser."""

import argparse

from coopsim.base.types import CoopsimError
from coopsim.cli.parser import build


def run(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise CoopsimError("completion needs shtab: pip install 'coopsim[completion]'") from None
    print(shtab.complete(build(), args.shell))
    return 0
