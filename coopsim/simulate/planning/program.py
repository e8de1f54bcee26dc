"""The arrays of a program, which kernels read; the cost classes of its values, and when each value goes.

A cost class is the values that ops of one name make at about the same cost per byte; they are numbered from the
cheapest. The program drops a value, or keeps it as long as a recomputation may still need it.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from coopsim.base.types import CostModel
from coopsim.simulate.kernel import state as s
from coopsim.trace.table import Trace

NEVER = 1 << 62


@dataclass(frozen=True)
class Program:
    """Read-only arrays for the kernels (kernel/state.py names their columns), and the names of the values."""

    values: s.Array
    ops: s.Array
    ins: s.Array
    outs: s.Array
    uses: s.Array
    initial: s.Array
    events: s.Array
    step_cost: s.Array
    carry: s.Array
    edge_op: s.Array  # the op of each input, then of each output
    storage: s.Array  # of each value; -1 for a temporary
    version: s.Array  # of each value; for a temporary its number within its op
    spare: s.Array  # values that stand for bytes to be left unused
    used_up: int  # a storage that the sequence uses from its start and that is not there again at its end; -1: none
    dropped: s.Array  # the op after which the program drops each value; the number of ops if it never does


_SHIFT = 60  # of a cost before it is divided by bytes, so that integers tell costs per byte apart on every machine


@contextmanager
def without_collections() -> Iterator[None]:
    """No search for cycles of garbage, which the millions of small lists that a long step takes would set off."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def decision_cost(trace: Trace, model: CostModel) -> s.Array:
    """What policies decide with, per op: recorded cost, bytes moved, operations (else elements moved), or 1."""
    if model == CostModel.COST:
        return trace.cost_ns
    if model == CostModel.BYTES:
        return trace.bytes_moved
    if model == CostModel.FLOPS:
        return np.where(trace.flops > 0, trace.flops, trace.bytes_moved // 4)
    return np.ones(trace.n_ops, np.int64)


def octave(cost: int, nbytes: int) -> int:
    """The cost per byte on a logarithmic scale, in eighths of an octave (not quite of one length)."""
    per_byte = (cost + 1 << _SHIFT) // nbytes
    shift = max(per_byte.bit_length() - 4, 0)
    return 8 * shift + (per_byte >> shift)


def cost_classes(names: Sequence[str], costs: Sequence[int], nbytes: Sequence[int]) -> s.Array:
    """The cost class of each value, given the op that makes it, what that costs, and its bytes (more than 0)."""
    keys = [(octave(c, n), name) for name, c, n in zip(names, costs, nbytes, strict=True)]
    number = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], np.int64)


class Drops:
    """The program's drops, in order, and after which op each is due.

    ins, outs: the values that each op reads and makes. drops: (op, value), the value dropped after that op.
    """

    def __init__(
        self, ins: list[list[int]], outs: list[list[int]], non_evictable: list[bool], drops: list[tuple[int, int]]
    ) -> None:
        self.ins, self.outs, self.non_evictable, self.drops = ins, outs, non_evictable, drops
        self._due: list[list[tuple[int, int]]] = [[] for _ in range(len(ins) + 1)]  # after each op, -1 first: events

    def postpone(self, as_recorded: set[int]) -> None:
        """A non-evictable value stays as long as an op that reads it may run again; but not those `as_recorded`."""
        for op, v in self._in_order(as_recorded):
            self._due[1 + op].append((s.DROP, v))

    def _in_order(self, as_recorded: set[int]) -> list[tuple[int, int]]:
        """The drops when they are due, the postponed ones of an op first."""
        need = self._need()
        later = [kept and v not in as_recorded for v, kept in enumerate(self.non_evictable)]
        return sorted(((max(op, need[v]) if later[v] else op, v) for op, v in self.drops), key=lambda due: due[0])

    def _need(self) -> list[int]:
        """The last op that may want each value, recomputations included."""
        need = [-1] * len(self.non_evictable)
        for op in range(len(self.ins) - 1, -1, -1):
            last = max([op] + [need[w] for w in self.outs[op] if not self.non_evictable[w]])
            for v in self.ins[op]:
                need[v] = max(need[v], last)
        return need

    def count_references(self, initial: list[int], first: list[int], disabled: set[int], as_recorded: set[int]) -> None:
        """Every value goes for good when nothing refers to it: the program, or an op that could run again and reads it.

        first: of each value what references to it count for (itself, or the first of its versions). disabled: those
        whose eviction OneFlow disables. Others that are non-evictable go as in `postpone`.
        """
        count = References(self.ins, self.outs, initial, first)
        ran = -1
        for op, v in self._in_order(as_recorded | disabled):
            while ran < op:
                ran += 1
                count.ran(ran)
            self._due[1 + op].append((s.DROP_ONLY if v in disabled else s.DROP, v))
            self._due[1 + op] += [(s.GONE, u) for u in count.dropped(v)]

    def events(self, step: list[int]) -> s.Array:
        """The program as kernels read it, (events, 2). step: of each op."""
        events = list(self._due[0])
        for op, following in enumerate([*step[1:], -1]):
            events += [(s.RUN, op), *self._due[1 + op]]
            if following != step[op]:
                events.append((s.END_STEP, step[op]))
        return np.array(events, np.int64).reshape(-1, 2)


class References:
    """How many there are to each value, while the program goes through an iteration."""

    def __init__(self, ins: list[list[int]], outs: list[list[int]], initial: list[int], first: list[int]) -> None:
        self.ins, self.outs, self.first = ins, outs, first
        self.producer = {w: op for op, row in enumerate(outs) for w in row}
        self.versions: dict[int, list[int]] = {}
        for v, of in enumerate(first):
            self.versions.setdefault(of, []).append(v)
        self.count = [0] * len(first)
        for v in initial:
            self.count[v] = 1
        self.results: dict[int, int] = {}  # of an op that could run again: its outputs that are referred to

    def ran(self, op: int) -> None:
        """The op has run: its results are the program's, and to make them again it refers to its inputs."""
        new = [w for w in self.outs[op] if self.first[w] == w]
        for w in new:
            self.count[w] = 1
        if new:
            self.results[op] = len(new)
            for v in self.ins[op]:
                self.count[self.first[v]] += 1

    def dropped(self, v: int) -> list[int]:
        """What goes for good as the program drops v, in that order: depth first, an op's last input first."""
        first = self.first[v]
        if v != self.versions[first][-1]:
            return []  # an update in place has made the next version
        gone: list[int] = []
        waiting = [iter([first])]
        while waiting:
            u = next(waiting[-1], None)
            if u is None:
                waiting.pop()
                continue
            self.count[u] -= 1
            if self.count[u] == 0:
                gone += self.versions[u]
                waiting.append(self._only_for(u))
        return gone

    def _only_for(self, u: int) -> Iterator[int]:
        """What the op refers to that makes u, if u is the last of its results to go."""
        op = self.producer.get(u, -1)
        if op in self.results:
            self.results[op] -= 1
            if self.results[op] == 0:
                yield from (self.first[v] for v in reversed(self.ins[op]))
