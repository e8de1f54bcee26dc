"""An experiment: a TOML file beside it that says what to replay and what to draw of it.

It is a grid of `coopsim sweep` or, if it has a `step`, of `coopsim map` (docs/reference/files.md), with a table more:

    [figure]
    draw = "overhead"        # a name in pictures.PICTURES
    of = "overhead"          # instead of a grid: draw the replays of this other experiment
    read = "gap"             # instead of a grid: draw expected/gap.csv, which takes long to make
    by = "optimum/gap.py"            #   with this script
"""

import argparse
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError

HERE = Path(__file__).parents[1]
ROOT = HERE.parent
EXPECTED = HERE / "expected"
KEYS = ("draw", "of", "read", "by")


@dataclass(frozen=True)
class Experiment:
    """One TOML file."""

    path: Path

    @property
    def name(self) -> str:
        """Its name, and that of its table, its figure and its expected result."""
        return self.path.stem

    @cached_property
    def _content(self) -> dict[str, Any]:
        from coopsim.study.sweep import grid_file

        grid_file.read(self.path, grid_file.KEYS + grid_file.MAP_KEYS)  # says what is wrong with a file
        return tomllib.loads(self.path.read_text(encoding="utf-8"))

    @cached_property
    def figure(self) -> dict[str, str]:
        """What to draw of what. CoopsimError, one line, if the file does not say that."""
        found = self._content.get("figure", {})
        for key in found:
            if key not in KEYS:
                raise CoopsimError(f"{self.path}: {unknown('key', key, KEYS)}")
        sources = [key for key in ("of", "read") if key in found] + ["a grid"] * ("traces" in self._content)
        if "draw" not in found or len(sources) != 1 or ("by" in found) != ("read" in found):
            raise CoopsimError(f"{self.path}: [figure] needs draw, and one of: a grid, of, read with by")
        return dict(found)

    @property
    def replays(self) -> bool:
        """Whether it has a grid of its own."""
        return "traces" in self._content

    @property
    def is_map(self) -> bool:
        """Whether that grid is of `coopsim map`."""
        return "step" in self._content

    def perform(self, output: Path, jobs: int) -> Any:
        """Replay the grid, as `coopsim sweep` or `coopsim map` would. Returns the table. CoopsimError as they do."""
        from coopsim.base.progress import watch
        from coopsim.cli import grid
        from coopsim.cli.parser import build
        from coopsim.study.sweep import Scan, feasibility_map, grid_file, sweep

        verb, keys = ("map", grid_file.MAP_KEYS) if self.is_map else ("sweep", grid_file.KEYS)
        args: argparse.Namespace = build().parse_args([verb, str(self.path), "-o", str(output), "-j", str(jobs)])
        wanted, other = grid.of(args, keys)
        where = grid.workers(args, wanted, jobs)
        with watch(self.name) as report:
            if not self.is_map:
                return sweep(wanted, output, where, report)
            asked = grid.SCAN | other
            scan = Scan(asked["largest"], asked["smallest"], asked["step"], asked["fine"])
            return feasibility_map(wanted, scan, output, where, report)

    def result(self, table: Any) -> Any:
        """The small table that is expected: bands of a sweep, smallest budgets of a map."""
        from coopsim.study import tables

        if self.is_map:
            return tables.smallest_budgets(table)
        return tables.bands(table)


def experiments(folder: Path = HERE / "figures") -> dict[str, Experiment]:
    """All of a folder by name; those that others draw from come first."""
    found = [Experiment(path) for path in sorted(folder.glob("*.toml"))]
    return {e.name: e for e in sorted(found, key=lambda e: not e.replays)}
