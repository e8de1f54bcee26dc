"""Replay over a grid of traces, policies, allocators and budgets, on any concurrent.futures.Executor; interruptible.

Each finished row goes to a journal beside the output at once; when all are there, the table is written and the
journal removed. Started again with the same grid, a sweep reads the journal and does the rest.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np

from coopsim import __version__, allocators, budget, policies
from coopsim.kernel.jit import SOURCES_HASH
from coopsim.metrics import SUMMARY_KEYS
from coopsim.policies._foreign import fingerprint
from coopsim.types import CoopsimError

SWEEP_VERSION = 1
WALL_CLOCK_COLUMNS = ("search_ns",)  # the only ones that may differ between two runs


@dataclass(frozen=True)
class Point:
    """One replay. `budget` is as asked for; `band_center` the memory ratio whose neighbourhood it belongs to."""

    trace_file: str
    trace_hash: str
    policy: str
    allocator: str
    budget: str
    budget_bytes: int
    band_center: float
    peak_without_eviction_bytes: int


@dataclass(frozen=True)
class Grid:
    """What to sweep. Budgets as in budget.parse_list; each becomes `band` neighbours over `band_width`."""

    traces: Sequence[str]
    policies: Sequence[str]
    allocators: Sequence[str] = ("arena",)
    budgets: Sequence[str] = ("50%",)
    band: int = 1
    band_width: float = 0.05
    options: dict[str, Any] = field(default_factory=dict)  # of replay.measure: steps, decide_by, overhead_limit, random

    def points(self) -> list[Point]:
        """All replays, in a fixed order. CoopsimError for an unknown name or bad trace, before anything runs."""
        found = []
        for name in self.policies:
            policies.find(name)
        for file, allocator in product(self.traces, self.allocators):
            trace, granule = _load(file), allocators.find(allocator).granule
            peak = _peak(file, granule)
            for policy, text in product(self.policies, self.budgets):
                center = budget.parse(text, peak) / peak
                offsets = np.linspace(-self.band_width / 2, self.band_width / 2, self.band) if self.band > 1 else [0.0]
                found += [
                    Point(
                        trace_file=Path(file).name,
                        trace_hash=trace.content_hash,
                        policy=policy,
                        allocator=allocator,
                        budget=text,
                        budget_bytes=max(1, round((center + offset) * peak)),
                        band_center=round(center, 6),
                        peak_without_eviction_bytes=peak,
                    )
                    for offset in offsets
                ]
        return found

    def key(self, points: Sequence[Point]) -> str:
        """Names this grid, its traces and this version of the core: rows of another one must not be mixed in."""
        what = [__version__, SOURCES_HASH, SWEEP_VERSION, sorted(self.options.items()), [asdict(p) for p in points]]
        what.append([fingerprint(p) for p in self.policies])
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]


def sweep(
    grid: Grid, output: str | Path, executor: Executor | None = None, on_row: Callable[[int, int], None] | None = None
) -> Any:
    """Run the grid and write `output` (Parquet, a row a replay). Returns the table as a pandas DataFrame.

    executor: where replays run (None: in this process). on_row(done, total) is called as rows come in, first with what
    a journal already held. Raises CoopsimError if the journal beside `output` belongs to another grid.
    """
    points = grid.points()
    key = grid.key(points)
    files = {p.trace_hash: f for f in grid.traces for p in points if Path(f).name == p.trace_file}
    with _Journal(Path(f"{output}.journal"), key) as journal:
        report = on_row or _silent
        report(len(journal.rows), len(points))
        todo = [i for i in range(len(points)) if i not in journal.rows]
        work = ((i, files[points[i].trace_hash], points[i], grid.options) for i in todo)
        for i, row in _results(work, executor):
            journal.append(i, row)
            report(len(journal.rows), len(points))
        table = _write(points, journal.rows, grid, key, output)
        journal.remove()
    return table


def _silent(_done: int, _total: int) -> None:
    """Nobody watches."""


def _results(work: Iterator[tuple[Any, ...]], executor: Executor | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Finished replays as they come, with a bounded number in flight."""
    if executor is None:
        for job in work:
            yield _run(*job)
        return
    flying: set[Future[tuple[int, dict[str, Any]]]] = set()
    try:
        for job in work:
            flying.add(executor.submit(_run, *job))
            if len(flying) >= 256:
                done, flying = wait(flying, return_when=FIRST_COMPLETED)
                yield from (f.result() for f in done)
        while flying:
            done, flying = wait(flying, return_when=FIRST_COMPLETED)
            yield from (f.result() for f in done)
    finally:
        for f in flying:
            f.cancel()


def _run(i: int, file: str, point: Point, options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    from coopsim.replay import measure

    row = measure(_load(file), point.policy, point.allocator, point.budget_bytes, **options)
    row["failure"] = json.dumps(row["failure"]) if row["failure"] else None
    return i, row


@lru_cache(maxsize=16)
def _load(file: str) -> Any:
    """A trace, read once a process."""
    if file.startswith("synth:"):
        from coopsim.trace.synth import make

        return make(file)
    from coopsim.trace import load

    return load(file)


@lru_cache(maxsize=64)
def _peak(file: str, granule: int) -> int:
    from coopsim.trace.measure import peak_bytes

    return peak_bytes(_load(file), granule)


class _Journal:
    """Rows that are done, a JSON line each, under a line that names the grid. A line cut short by a kill is dropped."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.rows = path, dict[int, dict[str, Any]]()
        kept = 0
        if path.exists():
            whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
            head, *entries = [self._read(line) for line in whole] or [{"sweep": key}]
            if head != {"sweep": key} and entries:
                raise CoopsimError(
                    f"{path} holds rows of another sweep; finish that one, delete the file, or choose another -o"
                )
            if head == {"sweep": key}:
                kept = sum(map(len, whole))
                self.rows = {entry["point"]: entry["row"] for entry in entries}
        self.file = path.open("ab")
        self.file.truncate(kept)
        if not kept:
            self._line({"sweep": key})

    def _read(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            if isinstance(entry, dict) and (entry.keys() == {"sweep"} or isinstance(entry["row"], dict)):
                return entry
        except (ValueError, KeyError):
            pass
        raise CoopsimError(f"{self.path} is damaged; delete it, or choose another -o")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def append(self, i: int, row: dict[str, Any]) -> None:
        self._line({"point": i, "row": row})
        self.rows[i] = row

    def _line(self, entry: dict[str, Any]) -> None:
        self.file.write(json.dumps(entry).encode() + b"\n")
        self.file.flush()

    def remove(self) -> None:
        self.path.unlink()


def _write(points: Sequence[Point], rows: dict[int, dict[str, Any]], grid: Grid, key: str, output: str | Path) -> Any:
    import pandas as pd
    import pyarrow as pa

    from coopsim.trace.file import write_parquet

    ratio = [p.budget_bytes / p.peak_without_eviction_bytes for p in points]
    columns: dict[str, list[Any]] = {k: [rows[i][k] for i in range(len(points))] for k in SUMMARY_KEYS}
    asked = pd.DataFrame([asdict(p) for p in points]).drop(columns=["policy", "allocator", "budget_bytes"])
    table = pd.concat([pd.DataFrame(columns).assign(memory_ratio=ratio), asked], axis=1)
    floats = ("overhead", "fragmentation_rate", "fragmentation_rate_incl", "scatter")
    table = table.astype(dict.fromkeys(floats, "float64"))
    header = {
        "sweep_version": SWEEP_VERSION,
        "key": key,
        "coopsim": __version__,
        "options": grid.options,
        "band": grid.band,
    }
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata(
        {**(arrow.schema.metadata or {}), b"coopsim": json.dumps(header, sort_keys=True).encode()}
    )
    write_parquet(arrow, output)
    return table
