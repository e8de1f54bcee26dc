"""Measure this card as `coopsim calibrate` does, which goes on where it was cut off.

Usage: python -m experiments.gpu.stage_calibrate FOLDER.
"""

import json
import subprocess
import sys
from pathlib import Path

from experiments.gpu import names
from experiments.gpu.stage_phantom import card_of


def main(folder: Path) -> int:
    machine = json.loads((folder / names.MACHINE).read_text())["machine"]
    rehearse = ["--rehearse", card_of(machine["gpu"])] if machine["phantom"] else []
    words = [sys.executable, "-m", "coopsim", "calibrate", "-o", str(folder / names.CALIBRATION), *rehearse]
    return subprocess.call(words)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
