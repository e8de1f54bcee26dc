"""The trace in memory: three immutable tables (storages, ops, frees) and a provenance header."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.base.errors import unknown
from coopsim.base.text import html_table, human
from coopsim.trace.alive import bytes_by_role, peak_bytes
from coopsim.trace.ragged import Bools, Ints, Ragged

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    DataFrame = Any  # so that typing.get_type_hints works without importing pandas

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


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """One recorded sequence of training steps: three tables (docs/reference/files.md), column by column.

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

    @property
    def precision(self) -> str:
        """What products are computed in, such as "tf32" or "bf16 autocast"; "" if the trace does not say.

        Traces of a program recorded before 0.3 know only what float32 products were computed in, and say just that.
        """
        h = self.header
        single = str(h.get("precision", ""))
        if "products" in h or not single:
            return str(h.get("products", ""))
        if "optimizer" in h and "amp" not in h:  # a reference model in float32
            return single
        autocast = f"{h['amp']} autocast, " if h.get("amp") else ""
        return f"{autocast}float32 products in {single}"

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are alive at once without eviction, temporaries included."""
        return peak_bytes(self)

    def __eq__(self, other: object) -> bool:
        """Whether the rows are the same; headers may differ."""
        return self.content_hash == other.content_hash if isinstance(other, Trace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def named(self, label: str) -> "Trace":
        """The same trace under another label, for tables and figures; its content hash stays."""
        return replace(self, header={**self.header, "model": label})

    def __repr__(self) -> str:
        steps = "a step" if self.n_steps == 1 else f"{self.n_steps} steps"
        return f"Trace({self.label}, {self.n_ops} ops of {steps}, {self.n_storages} storages)"

    def _repr_html_(self) -> str:
        ops = ", ".join(f"{n} {phase}" for phase, n in Counter(self.phase).items())
        steps = "" if self.n_steps == 1 else f", {self.n_steps} steps"
        return html_table(
            self.label,
            [
                ("ops", f"{self.n_ops} ({ops}){steps}"),
                ("peak", f"{human(peak_bytes(self))} without eviction"),
                ("cost", f"{int(self.cost_ns.sum()) / 1e6:.1f} ms"),
                *((f"{role}, in all", human(n)) for role, n in bytes_by_role(self).items()),
            ],
        )

    def to_pandas(self, table: str = "ops") -> DataFrame:
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
