"""A schedule: every action of one replay, in order, from which figures are made and which the judge can check alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coopsim.text import html_table, human, overhead
from coopsim.trace.check import TraceError
from coopsim.trace.file import arrow, read_parquet, write_parquet
from coopsim.types import Action

if TYPE_CHECKING:
    import pandas as pd

SCHEDULE_VERSION = 1
GIVES_BACK = frozenset({Action.EVICT, Action.RELEASE, Action.FREE})  #: actions that end a value's residency
_ACTIONS = [a.name.lower() for a in Action]
COLUMNS = ("step", "op", "storage", "version", "address", "bytes", "time_ns", "visits")


@dataclass(frozen=True, repr=False)
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

    def to_pandas(self) -> "pd.DataFrame":
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


def save(schedule: Schedule, path: str | Path) -> None:
    """Write the schedule as Parquet (docs/formats.md), atomically."""
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
