"""Feasibility maps: every budget of a fine grid, and between two that end differently, ever closer."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import budget, files
from coopsim.base.errors import of_type, whole
from coopsim.base.progress import watch
from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.policies import AnyPolicy
from coopsim.study.sweep import own
from coopsim.study.sweep.grid import Grid, GridSetting, Point
from coopsim.study.sweep.journal import Journal, Row, key
from coopsim.study.sweep.options import given, some
from coopsim.study.sweep.run import run
from coopsim.study.sweep.sweep import OnRow, write
from coopsim.study.sweep.workers import Processes, Workers
from coopsim.trace import Trace

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    DataFrame = Any  # so that typing.get_type_hints works without importing pandas

_MOST = 1_000_000  # budgets of one setting, refined ones included


@dataclass(frozen=True)
class Scan:
    """The budgets of a map, in percent of the peak without eviction: `top` to `bottom` by `step`, refined to `fine`.

    fine: default a tenth of the step; the step is a whole number of them. CoopsimError for what makes no sense.
    """

    top: str = "100%"
    bottom: str = "10%"
    step: str = "0.5%"
    fine: str = ""

    def __post_init__(self) -> None:
        if not self.unit <= self.stride or (self.stride / self.unit).denominator != 1:
            raise CoopsimError(f"the step, {self.step}, must be a whole number of finer steps, not of {self.fine}")
        if not _percent(self.top) > _percent(self.bottom):
            raise CoopsimError(f"a map goes down: from {self.top} to {self.bottom} is nothing")
        if self.units > _MOST:
            raise CoopsimError(
                f"a map from {self.top} to {self.bottom} has {self.units} budgets; a million is the most"
            )

    @property
    def stride(self) -> Fraction:
        """The step."""
        return _percent(self.step)

    @property
    def unit(self) -> Fraction:
        """The finer step, of which all budgets are whole numbers below the top."""
        return _percent(self.fine) if self.fine else self.stride / 10

    @property
    def units(self) -> int:
        """Finer steps from the top to the last budget."""
        return (_percent(self.top) - _percent(self.bottom)) // self.stride * self.per_step

    @property
    def per_step(self) -> int:
        """Finer steps in a step."""
        return int(self.stride / self.unit)

    def text(self, n: int) -> str:
        """The budget n finer steps below the top."""
        return _as_text(_percent(self.top) - n * self.unit)

    def described(self) -> dict[str, str]:
        """The scan as the header of its table has it."""
        return {"largest": self.top, "smallest": self.bottom, "step": self.step, "fine": _as_text(self.unit)}


def _as_text(ratio: Fraction) -> str:
    return f"{(Decimal(ratio.numerator) * 100 / Decimal(ratio.denominator)).normalize():f}%"


def _percent(text: str) -> Fraction:
    if not re.fullmatch(r"[0-9]*\.?[0-9]+%", text.strip()) or not Fraction(text.strip()[:-1]):
        raise CoopsimError(f"{text!r} is not a percentage above 0%, such as 0.5%")
    return Fraction(text.strip()[:-1]) / 100


def feasibility_map(
    grid: Grid, scan: Scan, output: str | Path, executor: Executor | Workers | None = None, on_row: OnRow | None = None
) -> Any:
    """Map every setting of the grid (its budgets and bands apart) and write `output`, as `sweep` does.

    Returns the table as a pandas DataFrame: a sweep's columns and `refined`, smallest budgets last.
    """
    settings = grid.settings()
    name = key("map", [scan.top, scan.bottom, str(scan.stride), str(scan.unit)], settings)
    lines = {setting: _Line(setting, scan) for setting in settings}
    with Journal(Path(f"{output}.journal"), name) as journal:
        own.note_unknown({s.policy: s.unknown for s in settings}, goes_on=bool(journal.rows))
        points = run(
            [point for line in lines.values() for point in line.coarse()],
            grid.by_hash,
            journal,
            executor,
            on_row,
            lambda point, row: lines[point.setting].closer(point, row),
        )
        order = {setting: k for k, setting in enumerate(settings)}
        points.sort(key=lambda p: (order[p.setting], lines[p.setting].numbers[p]))
        about = {"key": name, "options": dict(grid.options), "map": scan.described()}
        table = write(points, journal.rows, output, about, more=("refined",))
        journal.remove()
    return table


class _Line:
    """One setting at all its budgets, numbered by finer steps from the top: a tree of intervals, cut in two while
    their ends differ."""

    def __init__(self, setting: GridSetting, scan: Scan) -> None:
        self.setting, self.scan = setting, scan
        self.granule = setting.allocator.granule
        self.outcomes: dict[int, str] = {}
        self.numbers: dict[Point, int] = {}
        self.waiting: dict[int, list[tuple[int, int]]] = {}  # for each budget, the intervals that it is an end of

    def coarse(self) -> list[Point]:
        """The grid's own budgets, largest first, down to one block of the allocator."""
        numbers = [n for n in range(0, self.scan.units + 1, self.scan.per_step) if self._bytes(n) >= self.granule]
        for a, b in pairwise(numbers):
            self.waiting.setdefault(a, []).append((a, b))
            self.waiting.setdefault(b, []).append((a, b))
        return [self._point(n, refined=False) for n in numbers]

    def closer(self, point: Point, row: Row) -> Iterator[Point]:
        """What to try as well, now that the outcome at a point is known: the same in whatever order they come."""
        n = self.numbers[point]
        self.outcomes[n] = row["outcome"]
        for a, b in self.waiting.pop(n, []):
            if a not in self.outcomes or b not in self.outcomes or self.outcomes[a] == self.outcomes[b]:
                continue
            middle = (a + b) // 2
            if a < middle and self._bytes(a) - self._bytes(b) > self.granule:
                self.waiting[middle] = [(a, middle), (middle, b)]
                yield self._point(middle, refined=True)

    def _bytes(self, n: int) -> int:
        return budget.parse(self.scan.text(n), self.setting.peak_without_eviction_bytes)

    def _point(self, n: int, *, refined: bool) -> Point:
        nbytes = self._bytes(n)
        ratio = nbytes / self.setting.peak_without_eviction_bytes
        point = Point(self.setting, self.scan.text(n), nbytes, round(ratio, 6), refined)
        self.numbers[point] = n
        return point


def map(  # noqa: A001  (coopsim.map)
    traces: Trace | str | Sequence[Trace | str],
    policies: AnyPolicy | Sequence[AnyPolicy],
    *,
    largest: str = "100%",
    smallest: str = "10%",
    step: str = "0.5%",
    fine: str = "",
    allocators: str | Allocator | Sequence[str | Allocator] = "arena",
    jobs: int = 1,
    output: str | Path | None = None,
    steps: int | Sequence[int] | None = None,
    cost_model: str | Sequence[str] | None = None,
    random: str | Sequence[str] | None = None,
    overhead_limit: float | Sequence[float] | None = None,
    seed: int | Sequence[int] | None = None,
    link: str | Sequence[str] | None = None,
    host_memory: int | str | Sequence[int | str] | None = None,
    host_bandwidth: float | Sequence[float] | None = None,
    torch: str | Sequence[str] | None = None,
    alloc_conf: str | Sequence[str] | None = None,
) -> DataFrame:
    """Replay every budget of a fine grid: a row per replay, as a pandas DataFrame, of which `coopsim.plot` makes a map.

    largest, smallest, step: the budgets, in percent of the peak without eviction. fine: the distance of further budgets
    where the outcome changes (default: a tenth of the step). All else is as of `sweep`; the columns are a sweep's, with
    `refined` for the further budgets. A budget that was not tried may end otherwise than its neighbours. CoopsimError
    for invalid arguments, before anything runs.
    """
    whole("jobs", jobs, 1, "how many processes")
    for name, text in (("largest", largest), ("smallest", smallest), ("step", step), ("fine", fine)):
        of_type(name, text, str, 'a percentage such as "0.5%"')
    grid = Grid(
        some("traces", traces),
        some("policies", policies),
        allocators=some("allocators", allocators),
        options=given(locals()),
    )
    scan = Scan(largest, smallest, step, fine)
    with tempfile.TemporaryDirectory() as folder, watch("replays", lines=False) as report:
        where = Processes(jobs) if jobs > 1 else None
        table: DataFrame = feasibility_map(grid, scan, files.target(output or Path(folder) / "map"), where, report)
    return table
