"""coopsim setup-torch [VERSION]: install PyTorch's CUDA build, without CUDA's libraries, beside coopsim."""

import argparse

from coopsim.base.progress import note


def run(args: argparse.Namespace) -> int:
    from coopsim.phantom import install

    install.install(args.version, say=note)
    return 0
