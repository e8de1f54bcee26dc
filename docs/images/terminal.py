"""Draws terminal.png, `coopsim fit` on examples/train.py in a terminal: `python docs/images/terminal.py` (minutes)."""

import subprocess
import sys
from pathlib import Path

from matplotlib.figure import Figure

from coopsim.study.figures import save

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COMMAND = "coopsim fit --gpu rtx-3060 -- python examples/train.py --batch {}"
COLUMNS, ROWS = 104, 23  #: what is further down is left out
LINE, COLUMN = 0.2, 0.0852  #: inches
PAPER, INK, PALE = "#1e1e2e", "#e4e4ec", "#8f93a8"


def draw(output: str) -> Figure:
    """A terminal with the command and the beginning of what it prints."""
    lines = [line[i : i + COLUMNS] for line in output.splitlines() for i in range(0, max(len(line), 1), COLUMNS)]
    shown = [*lines[:ROWS], "…"] if len(lines) > ROWS else lines
    width, height = (COLUMNS + 4) * COLUMN, (len(shown) + 3) * LINE
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    look = {"family": "DejaVu Sans Mono", "size": 10, "ha": "left", "va": "center"}

    def put(row: int, column: int, text: str, color: str, **more: str) -> None:
        x, y = (column + 2) * COLUMN / width, 1 - (row + 1.5) * LINE / height
        figure.text(x, y, text.replace("$", r"\$"), color=color, **look, **more)

    put(0, 0, "$", PALE)
    put(0, 2, COMMAND, INK, weight="bold")
    for row, line in enumerate(shown, start=1):
        put(row, 0, line, PALE if line.startswith(("-", "…")) else INK)
    return figure


def main() -> int:
    """The exit code."""
    command = [str(Path(sys.executable).with_name("coopsim")), *COMMAND.split()[1:]]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    print(done.stdout)
    save(draw(done.stdout), HERE / "terminal.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
