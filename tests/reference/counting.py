"""Who refers to what, under `release = counted`: what nothing refers to any more goes for good."""

from collections import Counter

from tests.reference.program import KEPT_ROLES
from tests.reference.values import Op, Value


class References:
    """Of values, in one iteration: the program's own, and one from each op that could run again for each of its inputs.

    A non-evictable value that is updated in place stays one thing, however often: what refers to one of its versions
    refers to the first.
    """

    def __init__(self, values: list[Value]) -> None:
        self.count: Counter[Value] = Counter()
        self.results: dict[Op, int] = {}  # of an op that could run again: how many of its outputs are referred to
        self.versions: dict[Value, list[Value]] = {}
        for v in values:
            self.versions.setdefault(first(v), []).append(v)
            self.count[v] = 1 if v.producer is None and v.version == 0 else 0

    def ran(self, op: Op) -> None:
        """For the first time in this iteration."""
        for w in op.outputs:
            if first(w) is w:
                self.count[w] = 1
        remembered = [w for w in op.outputs if not updated(w)]
        if remembered:
            self.results[op] = len(remembered)
            self.count.update(first(u) for u in op.inputs)

    def program_drops(self, v: Value) -> list[Value]:
        """What goes for good then, resident or not."""
        last = self.versions[first(v)][-1]
        return self.without(first(v)) if v is last else []

    def without(self, v: Value) -> list[Value]:
        """One reference less. If that was the last: v, and with its op what only that still referred to."""
        self.count[v] -= 1
        if self.count[v] > 0:
            return []
        gone = list(self.versions[v])
        op = v.producer
        if op in self.results:
            self.results[op] -= 1
            if self.results[op] == 0:
                for u in reversed(op.inputs):
                    gone += self.without(first(u))
        return gone


def updated(v: Value) -> bool:
    """Whether it is a non-evictable value's next version in the same place: nobody would run that update again."""
    return v.before is not None and v.in_place and v.role in KEPT_ROLES


def first(v: Value) -> Value:
    """The version that stands for it."""
    while updated(v):
        assert v.before
        v = v.before
    return v
