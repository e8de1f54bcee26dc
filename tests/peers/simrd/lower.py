"""Lower a trace to simrd's program: tensors, the storages they live in, and the events of the schedule.

A trace imported from a DTR log says under `simrd` in its header which of its storages are views. In any other trace
each storage is one tensor, a free is a release, an in-place op makes fresh copies of what it updates (as simrd rewrites
a MUTATE), and what is there at the start is a constant.
"""

import itertools
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.trace.table import Trace
from tests.peers.simrd import state as s

NOTHING = -1  #: simrd's ops have results; one of 0 bytes that goes at once stands in for none
_LARGEST = 1 << 52  # bytes and nanoseconds up to here are exact in doubles, twice over


@dataclass(frozen=True)
class SimrdProgram:
    """Read-only arrays for the kernels (state.py names their columns), and what they are in the trace."""

    storages: s.Array
    tensors: s.Array
    ops: s.Array
    edges: s.Array
    events: s.Array
    args: s.Array
    members: s.Array
    op: s.Array  # of the trace; -1 for one that only brings a constant of the start
    owner: s.Array  # the trace's storage, for each storage here
    version: s.Array  # and its version: above 0 for copies made by in-place ops
    base_cost_ns: int
    trace_hash: str
    mixed_view: int  # an op that makes a view of one storage from several; -1 if there is none


_cache: "weakref.WeakKeyDictionary[Trace, SimrdProgram]" = weakref.WeakKeyDictionary()


def lower(trace: Trace) -> SimrdProgram:
    """The program of a trace, kept as long as the trace is. CoopsimError if simrd's rules give it no meaning."""
    if trace not in _cache:
        _cache[trace] = _Lowering(trace).program()
    return _cache[trace]


class _Lowering:
    """One pass over the rows that names tensors and storages, then the arrays."""

    def __init__(self, trace: Trace) -> None:
        facts: dict[str, Any] = trace.header.get("simrd", {})
        if facts.get("version", 1) != 1:
            raise CoopsimError(f"simrd facts of version {facts['version']} in this trace; import its log again")
        if trace.n_steps > 1:
            raise CoopsimError(f"simrd's rules know one training step, and this trace holds {trace.n_steps}")
        if trace.has_collectives:
            raise CoopsimError("simrd's rules run any op again, and this trace has collectives, which cannot be")
        total = int(trace.cost_ns.sum()), int(trace.bytes.sum()) + int(trace.temporaries.values.sum())
        if max(total) >= _LARGEST:
            raise CoopsimError("costs or bytes of this trace are too large for simrd's rules (4.5e15 in all)")
        self.trace, self.facts = trace, facts
        self.view_of: dict[int, int] = dict(facts.get("views", ()))
        self.current: dict[int, int] = {}  # storage of the trace -> its tensor now
        self.storage: list[int] = []  # of each tensor
        self.maker: list[int] = []  # op of each tensor
        self.is_view: list[bool] = []
        self.owner: list[int] = []  # of each storage
        self.version: list[int] = []
        self.members: list[list[int]] = []
        self.args: list[list[int]] = []
        self.outs: list[int] = []  # how many
        self.op: list[int] = []
        self.cost: list[int] = []
        self.spare: list[int] = []
        self.events: list[tuple[int, int]] = []
        self.mixed_view = -1

    def program(self) -> SimrdProgram:
        trace = self.trace
        for x in np.flatnonzero(trace.alive_at_start).tolist():
            self._op(-1, s.CONSTANT, [], [x], 0, 0)
        reads, mutates, creates = trace.reads.rows(), trace.mutates.rows(), trace.creates.rows()
        temporaries, cost = trace.temporaries.rows(), trace.cost_ns.tolist()
        frees, after = trace.freed.tolist(), trace.freed_after.tolist()
        k = 0
        for op in range(-1, trace.n_ops):
            if op >= 0:
                imported_constant = bool(self.facts) and trace.name[op] == "constant" and not reads[op]
                kind = s.CONSTANT if imported_constant else s.RUN
                spare = sum(temporaries[op])
                if self.facts:
                    names = self._arguments(reads[op])
                else:
                    names = list(dict.fromkeys(reads[op] + mutates[op]))
                made = [*mutates[op], *creates[op]] or [NOTHING]
                old = [self.storage[self.current[x]] for x in mutates[op]]
                self._op(op, kind, [self.current[x] for x in names], made, cost[op], spare)
                self.events += [(s.RELEASE, x) for x in old]
                if made == [NOTHING]:
                    self.events.append((s.RELEASE, self.storage[self.current.pop(NOTHING)]))
            while k < len(frees) and after[k] == op:
                self.events.append((s.RELEASE, self.storage[self.current[frees[k]]]))
                k += 1
        # At the end simrd brings back what the program still holds, and pins it.
        freed = set(frees)
        kept = self.facts["kept"] if self.facts else [x for x in self.current if x not in freed]
        self.events += [(s.PIN, self.current[x]) for x in kept]
        return self._arrays()

    def _arguments(self, reads: list[int]) -> list[int]:
        """What the op was called with: its reads without the owners of views, which the importer appended."""
        owners: dict[int, None] = {}
        for k, x in enumerate(reads):
            if k + len(owners) == len(reads):
                return reads[:k]
            if x in self.view_of:
                owners[self.view_of[x]] = None
        return reads

    def _op(self, op: int, kind: int, args: list[int], made: list[int], cost: int, spare: int) -> None:
        number = len(self.op)
        self.op.append(op)
        self.args.append(args)
        self.cost.append(cost)
        self.spare.append(spare)
        self.outs.append(len(made))
        for x in made:
            tensor, root = len(self.storage), self.view_of.get(x, -1)
            if root >= 0:
                storage = self.storage[self.current[root]]
                if any(self.storage[a] != storage for a in args):
                    self.mixed_view = op
            else:
                storage = len(self.owner)
                old = self.current.get(x, -1)
                self.owner.append(x)
                self.version.append(0 if old < 0 else self.version[self.storage[old]] + 1)
                self.members.append([])
            self.current[x] = tensor
            self.storage.append(storage)
            self.maker.append(number)
            self.is_view.append(root >= 0)
            self.members[storage].append(tensor)
        self.events.append((kind, number))

    def _arrays(self) -> SimrdProgram:
        n, n_tensors, n_ops = len(self.owner), len(self.storage), len(self.op)
        nbytes = np.append(self.trace.bytes, 0)[self.owner]  # the last is NOTHING's
        tensors = np.zeros((n_tensors, s.T_COLUMNS), np.int64)
        tensors[:, s.STORAGE] = self.storage
        tensors[:, s.OP] = self.maker
        tensors[:, s.BYTES_OF] = np.where(self.is_view, 0, nbytes[self.storage])
        ops = np.zeros((n_ops + 1, s.O_COLUMNS), np.int64)
        ops[:n_ops, s.COST] = self.cost
        ops[1:, s.ARGS] = np.cumsum([len(a) for a in self.args])
        ops[1:, s.OUTS] = np.cumsum(self.outs)
        ops[:n_ops, s.SPARE] = self.spare
        np.add.at(ops[:, s.NEED], tensors[:, s.OP], tensors[:, s.BYTES_OF])
        ops[:, s.NEED] += ops[:, s.SPARE]
        storages = np.zeros((n + 1, s.V_COLUMNS), np.int64)
        storages[:n, s.BYTES] = nbytes
        storages[:, s.CREATED] = -1
        storages[1:, s.MEMBERS] = np.cumsum([len(m) for m in self.members])
        parents, children = self._neighbours(n)
        edges = [edge for rows in (parents, children) for row in rows for edge in row]
        ends = np.cumsum([len(row) for row in parents + children])
        storages[1:, s.PARENTS] = ends[:n]
        storages[0, s.CHILDREN] = ends[n - 1]
        storages[1:, s.CHILDREN] = ends[n:]
        table = np.zeros((len(edges), 2), np.int64)
        if edges:
            table[:, [s.END, s.SINCE]] = edges
        return SimrdProgram(
            storages=storages,
            tensors=tensors,
            ops=ops,
            edges=table,
            events=np.array(self.events, np.int64).reshape(-1, 2),
            args=_flat(self.args),
            members=_flat(self.members),
            op=np.array(self.op, np.int64),
            owner=np.array(self.owner, np.int64),
            version=np.array(self.version, np.int64),
            base_cost_ns=sum(self.cost),
            trace_hash=self.trace.content_hash,
            mixed_view=self.mixed_view,
        )

    def _neighbours(self, n: int) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
        """Parents and children of each storage, each once, with the op that first made it one; oldest edge first."""
        parents: list[dict[int, int]] = [{} for _ in range(n)]
        children: list[dict[int, int]] = [{} for _ in range(n)]
        first = itertools.accumulate(self.outs, initial=0)
        for op, (start, count) in enumerate(zip(first, self.outs, strict=False)):
            sources = {self.storage[a] for a in self.args[op]}
            for target in {self.storage[t] for t in range(start, start + count)}:
                for source in sources - {target}:
                    parents[target].setdefault(source, op)
                    children[source].setdefault(target, op)
        return [list(p.items()) for p in parents], [list(c.items()) for c in children]


def _flat(rows: Iterable[list[int]]) -> s.Array:
    return np.array([x for row in rows for x in row], np.int64)
