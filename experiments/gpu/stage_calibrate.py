"""Measure this card as `coopsim calibrate` does, which goes on where it was cut off.

Usage: python -m experiments.gpu.stage_calibrate FOLDER.
"""

import json
import subprocess
import sys
from pathlib import Path

from experiments.gpu import names
from experiments.gpu.stage_phantom import card_of


def command(folder: Path) -> list[str]:
    """What measures, or on the phantom does as if."""
    machine = json.loads((folder / names.MACHINE).read_text())["machine"]
    words = [sys.executable, "-m", "coopsim", "calibrate", "-o", str(folder / names.CALIBRATION)]
    return [*words, "--dry-run", card_of(machine["gpu"])] if machine["phantom"] else words


if __name__ == "__main__":
    sys.exit(subprocess.call(command(Path(sys.argv[1]))))  # noqa: S603
