"""When the values of a program go: where it drops them, or later if a recomputation may still need them."""

from collections.abc import Iterator

import numpy as np

from coopsim.kernel import state as s


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
