"""What this machine is: python -m experiments.gpu.stage_machine FOLDER. Fails where PyTorch finds no GPU."""

import sys
from pathlib import Path

import torch

from coopsim.base.types import CoopsimError
from experiments.gpu import machine, names


def main(folder: Path) -> None:
    if not torch.cuda.is_available():
        raise CoopsimError("PyTorch finds no GPU")
    machine.write(folder / names.MACHINE, {}, machine.facts())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
