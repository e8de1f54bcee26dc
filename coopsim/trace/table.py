"""The trace in memory: three immutable tables (storages, ops, frees) and a provenance header."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coopsim.errors import unknown
from coopsim.text import html_table, human

if TYPE_CHECKING:
    import pandas as pd

#: 2 added `requests`, 3 `peers`; older files are read, with none. A trace without collectives is written as 2.
SCHEMA_VERSION = 3

#: Columns of the ops: numbers, and lists of them.
NUMBERS = ("step", "stream", "cost_ns", "flops", "bytes_moved", "peers")
_HASHED = NUMBERS[:-1]
LISTS = ("reads", "mutates", "creates", "temporaries", "requests")

#: The columns of each table.
_TABLES = {
    "ops": ("name", "phase", "module", "stream", "step", "cost_ns", "flops", "bytes_moved", "random", "peers", *LISTS),
    "storages": ("bytes", "role", "alive_at_start", "becomes"),
    "frees": ("freed", "freed_after"),
}

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Ragged:
    """Rows of integers of different lengths: row i is `values[start[i]:start[i + 1]]`."""

    start: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> "Ragged":
        lists = [list(row) for row in rows]
        start = np.zeros(len(lists) + 1, np.int64)
        start[1:] = np.cumsum([len(row) for row in lists])
        return cls(start, np.array([x for row in lists for x in row], np.int64))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, i: int) -> list[int]:
        row: list[int] = self.values[self.start[i] : self.start[i + 1]].tolist()
        return row

    def __iter__(self) -> Iterator[list[int]]:
        """Row by row, as lists: what to use where one pass is enough, as all at once take much memory."""
        flat, at = self.values.tolist(), self.start.tolist()
        return (flat[a:b] for a, b in itertools.pairwise(at))

    def rows(self) -> list[list[int]]:
        """All rows as lists; cheaper than indexing one by one."""
        return list(self)


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """One recorded sequence of training steps: three tables (docs/formats.md), column by column.

    storages: `bytes`, `role` (strings of types.Role), `alive_at_start`, `becomes` (at the end of the last step this
    storage is what the named storage is at the start of the first; itself for one that is kept; -1: it dies).
    ops, in program order: `name`, `phase`, `module`, `stream`, `step`, `cost_ns`, `flops`, `bytes_moved`, `random`,
    `peers` (the ranks that a collective or a message is among, this one included; 0 for any other op), and the lists
    `reads`, `mutates`, `creates` (storage ids), `temporaries` (bytes allocated inside the op) and `requests` (in which
    order; empty: what is created, in order, and no temporaries).
    frees, in program order: storage `freed[i]` goes right after op `freed_after[i]` (-1: before the first op).
    """

    bytes: Ints  # (storages,)
    role: list[str]  # of each storage
    alive_at_start: Bools  # (storages,)
    becomes: Ints  # (storages,)
    name: list[str]  # of each op
    phase: list[str]  # of each op
    module: list[str]  # of each op
    stream: Ints  # (ops,)
    step: Ints  # (ops,), from 0, never less than the one before
    cost_ns: Ints  # (ops,)
    flops: Ints  # (ops,)
    bytes_moved: Ints  # (ops,)
    random: Bools  # (ops,)
    peers: Ints  # (ops,)
    reads: Ragged  # a row per op
    mutates: Ragged  # a row per op
    creates: Ragged  # a row per op
    temporaries: Ragged  # a row per op
    requests: Ragged  # a row per op
    freed: Ints  # (frees,)
    freed_after: Ints  # (frees,), in ascending order
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_storages(self) -> int:
        return len(self.bytes)

    @property
    def n_ops(self) -> int:
        return len(self.name)

    @property
    def n_steps(self) -> int:
        return int(self.step.max()) + 1 if self.n_ops else 0

    @property
    def has_collectives(self) -> bool:
        """Is it of a rank among several?"""
        return bool(self.peers.any())

    @property
    def label(self) -> str:
        """A short name for tables and figures."""
        return str(self.header.get("model", "trace"))

    def __repr__(self) -> str:
        steps = "a step" if self.n_steps == 1 else f"{self.n_steps} steps"
        return f"Trace({self.label}, {self.n_ops} ops of {steps}, {self.n_storages} storages)"

    def _repr_html_(self) -> str:
        from coopsim.trace.measure import info

        facts = info(self)
        ops = ", ".join(f"{n} {phase}" for phase, n in facts["ops_by_phase"].items())
        steps = "" if self.n_steps == 1 else f", {self.n_steps} steps"
        return html_table(
            self.label,
            [
                ("ops", f"{self.n_ops} ({ops}){steps}"),
                ("peak", f"{human(facts['peak_bytes'])} without eviction"),
                ("cost", f"{facts['base_cost_ns'] / 1e6:.1f} ms"),
                *((f"{role}, in all", human(n)) for role, n in facts["bytes_by_role"].items()),
            ],
        )

    def to_pandas(self, table: str = "ops") -> "pd.DataFrame":
        """One of the tables as a pandas DataFrame, a row per op, storage or free: `ops`, `storages` or `frees`."""
        import pandas as pd

        if table not in _TABLES:
            raise unknown("table", str(table), _TABLES)
        columns = {name: getattr(self, name) for name in _TABLES[table]}
        return pd.DataFrame({name: list(v) if isinstance(v, Ragged) else v for name, v in columns.items()})

    @cached_property
    def content_hash(self) -> str:
        """The hash that names this trace, over its rows and not its header; `blake2b:` and 32 hex digits."""
        h = hashlib.blake2b(digest_size=16)
        for name in ("bytes", "alive_at_start", "becomes", *_HASHED, "random", "freed", "freed_after"):
            h.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        # no requests and no peers hash as before there were any, so that such a trace keeps its name
        if self.has_collectives:
            h.update(np.ascontiguousarray(self.peers).tobytes())
        for name in LISTS if len(self.requests.values) else LISTS[:-1]:
            ragged: Ragged = getattr(self, name)
            h.update(ragged.start.tobytes() + ragged.values.tobytes())
        for words in (self.role, self.name, self.phase, self.module):
            h.update("\0".join(words).encode() + b"\1")
        return "blake2b:" + h.hexdigest()
