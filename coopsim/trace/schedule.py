"""A schedule: every action of one replay, in order, from which figures are made and which the judge can check alone."""

import bisect
import hashlib
import heapq
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coopsim.base.text import html_table, human, overhead
from coopsim.base.types import Action
from coopsim.trace import load_trace
from coopsim.trace.checks import TraceError
from coopsim.trace.file import arrow, header_of, read_parquet, write_parquet

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    DataFrame = Any  # so that typing.get_type_hints works without importing pandas

SCHEDULE_VERSION = 1
GIVES_BACK = frozenset({Action.EVICT, Action.RELEASE, Action.FREE})  #: actions that end a value's residency
_ACTIONS = [a.name.lower() for a in Action]
COLUMNS = ("step", "op", "storage", "version", "address", "bytes", "time_ns", "visits")


#: Entries of the header that differ between two runs of one replay, or that the file adds.
_NOT_CONTENT = ("search_ns", "planning_ns", "schedule_version")
#: Actions that may stand between the evictions of a search and the allocation that they make room for.
_BETWEEN = (Action.REFUSE, Action.OFFLOAD, Action.FETCH, Action.DISCARD)


@dataclass(frozen=True, repr=False, eq=False)
class Schedule:
    """Columns of equal length, one row per action, and a header that says what was replayed and how it ended.

    `action` holds types.Action numbers. `op` is the op that the action serves, -1 at the start and end of an iteration
    of the trace. `storage` and `version` name a value; for a temporary of `op` storage is -1 and version counts the
    op's temporaries; both are -1 in rows of ops. `address` and `bytes` are the block's (-1 and 0 for ops; address -1 in
    a counter). A `move` row names the value that takes over. `time_ns` is the clock of reported cost before the action,
    `visits` the blocks that a search visited for an `alloc`.
    """

    action: NDArray[np.int8]
    step: NDArray[np.int64]
    op: NDArray[np.int64]
    storage: NDArray[np.int64]
    version: NDArray[np.int64]
    address: NDArray[np.int64]
    bytes: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    visits: NDArray[np.int64]
    header: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.action)

    @property
    def base_cost_ns(self) -> int:
        """The cost of all steps without recomputation."""
        per_step: list[int] = self.header["base_step_cost_ns"]
        return sum(per_step[k % len(per_step)] for k in range(self.header["steps"]))

    @property
    def overhead(self) -> float | None:
        """Total cost / base cost, with the cost of steps that were started over; None unless all steps ran."""
        cost: int = self.header["total_cost_ns"] + self.header.get("lost_cost_ns", 0)
        return cost / self.base_cost_ns if self.header["outcome"] == "ok" and self.base_cost_ns else None

    def __repr__(self) -> str:
        h = self.header
        what = ", ".join(str(h.get(key, "?")) for key in ("model", "policy", "allocator", "outcome"))
        return f"Schedule({what}, {len(self)} actions)"

    def _repr_html_(self) -> str:
        h = self.header
        if "base_step_cost_ns" not in h:  # made by hand
            return html_table(repr(self), [])
        cost = "-" if self.overhead is None else overhead(self.overhead)
        return html_table(
            f"{h['model']} under {h['policy']}: {h['outcome']}",
            [
                ("budget", f"{human(h['budget_bytes'])} in {h['allocator']}"),
                ("steps", f"{h['steps']} in one memory"),
                ("overhead", cost),
                ("peak", human(h["peak_bytes"])),
                ("evictions", f"{h['evictions']} under pressure, {h['recomputes']} ops run again"),
                ("actions", str(len(self))),
            ],
        )

    @cached_property
    def content_hash(self) -> str:
        """The hash of its rows and of its header without times of this machine; `blake2b:` and 32 hex digits."""
        h = hashlib.blake2b(digest_size=16)
        for name in ("action", *COLUMNS):
            h.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        h.update(json.dumps(self.without_times().header, sort_keys=True).encode())
        return "blake2b:" + h.hexdigest()

    def without_times(self) -> "Schedule":
        """The same schedule without times of this machine in its header, so that equal ones give equal files."""
        return replace(self, header={key: value for key, value in self.header.items() if key not in _NOT_CONTENT})

    def __eq__(self, other: object) -> bool:
        """Whether rows and headers are the same, but for times of this machine."""
        return self.content_hash == other.content_hash if isinstance(other, Schedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content_hash)

    @property
    def peak_bytes(self) -> int:
        """The most bytes in use at once."""
        return int(self.header["peak_bytes"])

    def save(self, path: str | Path) -> None:
        """Write it as a file (docs/reference/files.md), whole or not at all. CoopsimError if that cannot be done."""
        save(self, path)

    def fragmentation(self) -> DataFrame:
        """Memory at each allocation, once the value has its place: a row per `alloc`, in order.

        `time_ns` (the clock of reported cost), `step`, `op`, and in bytes: `used_bytes`, `free_bytes` (of the budget,
        wherever they lie), `largest_hole_bytes` (the longest free run of addresses; only in the arena, else NA).
        `searched`: whether values were evicted for it. Over these rows the mean of free_bytes ÷ budget is summary's
        fragmentation_rate, and the mean of 1 - largest_hole_bytes ÷ free_bytes its external_fragmentation.
        """
        import pandas as pd

        allocated = self.action == Action.ALLOC
        change = np.where(allocated, self.bytes, np.where(np.isin(self.action, list(GIVES_BACK)), -self.bytes, 0))
        used = np.cumsum(change)[allocated]
        budget = self.header["budget_bytes"]
        holes = _largest_holes(self, budget) if self.header["allocator"] == "arena" else [pd.NA] * len(used)
        return pd.DataFrame(
            {
                "time_ns": self.time_ns[allocated],
                "step": self.step[allocated],
                "op": self.op[allocated],
                "used_bytes": used,
                "free_bytes": budget - used,
                "largest_hole_bytes": pd.array(holes, dtype="Int64"),
                "searched": self._searched()[allocated],
            }
        )

    def _searched(self) -> NDArray[np.bool_]:
        """For each row whether it is an allocation for which a search evicted values, and not a plan."""
        if self.header.get("planned_steps"):
            planned: NDArray[np.bool_] = (self.action == Action.ALLOC) & (self.visits > 0)
            return planned
        found = np.zeros(len(self), np.bool_)
        kept = np.flatnonzero(~np.isin(self.action, _BETWEEN))
        found[kept[1:]] = (self.action[kept[1:]] == Action.ALLOC) & (self.action[kept[:-1]] == Action.EVICT)
        return found

    def serves_again(self) -> NDArray[np.bool_]:
        """For each row whether it serves an op run again: an allocation comes before its op's row, a move after it."""
        is_op = np.isin(self.action, (Action.COMPUTE, Action.RECOMPUTE))
        ops = np.flatnonzero(is_op)
        if not len(ops):
            return np.zeros(len(self), np.bool_)
        before = np.cumsum(is_op) - 1  # for each row the last op's row so far, -1 if there is none
        moved = self.action == Action.MOVE
        serving = np.clip(np.where(moved, before, before + 1), 0, len(ops) - 1)
        again: NDArray[np.bool_] = (self.action[ops[serving]] == Action.RECOMPUTE) & (self.op == self.op[ops[serving]])
        return again

    def select(self, rows: NDArray[np.bool_]) -> "Schedule":
        """Some of the rows, under the same header."""
        return Schedule(**{c: getattr(self, c)[rows] for c in ("action", *COLUMNS)}, header=self.header)

    def rows(self) -> list[tuple[int, ...]]:
        """(action, step, op, storage, version, address, bytes, time_ns, visits) per row, as plain integers."""
        columns = [getattr(self, c).tolist() for c in ("action", *COLUMNS)]
        return list(zip(*columns, strict=True))

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas DataFrame: `action` by name, and the columns of the schedule."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in COLUMNS}
        return pd.DataFrame({"action": [_ACTIONS[a] for a in self.action.tolist()]} | columns)

    def text(self) -> str:
        """The schedule as lines to read and to keep as goldens: `0007 evict      s12.0 @ 4096 +1024`."""
        lines = []
        for i, (action, _, op, storage, version, address, nbytes, _, _) in enumerate(self.rows()):
            verb = _ACTIONS[action]
            if action in (Action.COMPUTE, Action.RECOMPUTE):
                lines.append(f"{i:04d} {verb:<9} op {op}")
            else:
                name = f"s{storage}.{version}" if storage >= 0 else f"t{op}.{version}"
                lines.append(f"{i:04d} {verb:<9} {name} @ {address} +{nbytes}")
        return "\n".join(lines) + "\n"


def _largest_holes(schedule: Schedule, budget: int) -> list[int]:
    """The longest free run of addresses after each allocation in an arena."""
    starts, ends = [0, budget], [0, budget]  # of blocks, by address, with one of no bytes at either end
    holes = [(-budget, 0, budget)]  # a heap; those that are no more are dropped when they come up
    found = []
    for action, at, nbytes in zip(
        schedule.action.tolist(), schedule.address.tolist(), schedule.bytes.tolist(), strict=True
    ):
        if action == Action.ALLOC and nbytes:
            k = bisect.bisect_right(starts, at, 1, len(starts) - 1)
            starts.insert(k, at)
            ends.insert(k, at + nbytes)
            new = [(ends[k - 1], at), (at + nbytes, starts[k + 1])]
        elif action in GIVES_BACK and nbytes:
            k = bisect.bisect_left(starts, at, 1, len(starts) - 1)
            del starts[k], ends[k]
            new = [(ends[k - 1], starts[k])]
        else:
            new = []
        for low, high in new:
            if high > low:
                heapq.heappush(holes, (low - high, low, high))
        if action == Action.ALLOC:
            while holes and not _is_hole(starts, ends, *holes[0][1:]):
                heapq.heappop(holes)
            found.append(-holes[0][0] if holes else 0)
    return found


def _is_hole(starts: list[int], ends: list[int], low: int, high: int) -> bool:
    """Whether the bytes from low to high are free, and their neighbours are not."""
    k = bisect.bisect_left(starts, high, 1)
    return k < len(starts) and starts[k] == high and ends[k - 1] == low


def load_any(name: str | Path) -> Any:
    """Load a trace or a schedule, by what the file says, as a `Trace` or a `Schedule`.

    name: a file; or a trace by a name of `coopsim list traces`, or `synth:NAME[:SIZE]`. `bert-large` has modelled
    costs; `bert-large@h100` was recorded, with its costs, on that card. CoopsimError if it cannot be read.
    """
    if isinstance(name, str | Path) and Path(name).is_file() and "schedule_version" in header_of(name):
        return load(name)
    return load_trace(name)


def save(schedule: Schedule, path: str | Path) -> None:
    """Write the schedule as Parquet (docs/reference/files.md), atomically."""
    columns = {
        "seq": arrow(np.arange(len(schedule), dtype=np.int64)),
        "action": pa.DictionaryArray.from_arrays(arrow(schedule.action.astype(np.int8)), pa.array(_ACTIONS)),
    } | {c: arrow(getattr(schedule, c)) for c in COLUMNS}
    header = dict(schedule.header) | {"schedule_version": SCHEDULE_VERSION}
    table = pa.table(columns).replace_schema_metadata({b"coopsim": json.dumps(header, sort_keys=True).encode()})
    write_parquet(table, path)


def load(path: str | Path) -> Schedule:
    """Read a schedule. Raises TraceError with the reason if the file is missing, foreign or damaged."""
    table, header = read_parquet(path, "schedule")
    if "schedule_version" not in header:
        raise TraceError(f"{path}: not a coopsim schedule (no schedule_version in its header)")
    if header["schedule_version"] > SCHEDULE_VERSION:
        raise TraceError(
            f"{path}: schedule version {header['schedule_version']} is newer than this coopsim reads; upgrade"
        )
    absent = [c for c in ("action", *COLUMNS) if c not in table.column_names]
    if absent:
        raise TraceError(f"{path}: not a coopsim schedule (columns missing: {', '.join(absent)})")
    try:
        words = table.column("action").cast(pa.string()).to_pylist()
        action = np.array([_ACTIONS.index(w) for w in words], np.int8)
        columns = {c: table.column(c).cast(pa.int64()).to_numpy() for c in COLUMNS}
    except (pa.ArrowException, ValueError, TypeError) as e:
        raise TraceError(f"{path}: malformed: {str(e).splitlines()[0]}") from None
    return Schedule(action=action, **columns, header=header)
