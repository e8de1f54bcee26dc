"""Hypothesis strategies: small well-formed traces with everything that can happen in one, policies, budgets."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from coopsim.base.types import (
    Cost,
    Dead,
    Divisor,
    InPlace,
    Node,
    Phase,
    Pinning,
    Placement,
    Recency,
    Release,
    Role,
    Search,
)
from coopsim.simulate.policies import Policy
from coopsim.trace import Trace, TraceBuilder, check
from coopsim.trace.synth import make as synth

SIZES = [512, 700, 1000, 1024, 1536, 2000, 3000, 4096]
COSTS = [0, 1, 2, 3, 5, 7, 11, 30]
_SMALL = {Role.PARAMETER, Role.GRADIENT, Role.OPTIMIZER_STATE}
NAMES = ["aten.mm.default", "aten.relu.default", "aten.add.Tensor", "aten.convolution.default", "aten.mul.Tensor"]

T = TypeVar("T")


class Dice:
    """Choices out of drawn bytes: quick to draw, and what shrinks to zeros shrinks to the first choices."""

    def __init__(self, numbers: bytes) -> None:
        self.numbers = iter(numbers)

    def roll(self, n: int) -> int:
        return next(self.numbers, 0) % n

    def one_in(self, n: int) -> bool:
        return self.roll(n) == n - 1

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.roll(len(choices))]

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Up to `most` different ones, if there are any."""
        return list(dict.fromkeys(self.pick(choices) for _ in range(self.roll(most + 1)))) if choices else []


def dice(rolls: int) -> st.SearchStrategy[Dice]:
    """Dice good for so many rolls. (Drawn one by one, numbers would be the least of their range too often.)"""
    return st.binary(min_size=rolls, max_size=rolls).map(Dice)


def policies() -> st.SearchStrategy[Policy]:
    """Any policy, shipped or not."""

    def build(dice: Dice) -> Policy:
        return Policy(
            name="any",
            summary="",
            source="",
            cost=dice.pick([Cost.SET, *Cost]),
            divisor=dice.pick(list(Divisor)),
            recency=dice.pick([Recency.STALENESS, *Recency]),
            search=dice.pick(list(Search)),
            placement=dice.pick(list(Placement)),
            in_place=dice.pick(list(InPlace)),
            release=dice.pick([*[Release.EAGER] * 3, *Release]),
            dead=dice.pick(list(Dead)),
            pinning=dice.pick(list(Pinning)),
            node=dice.pick(list(Node)),
        )

    return dice(10).map(build)


@st.composite
def traces(draw: st.DrawFn, min_ops: int = 6, max_ops: int = 30, *, collectives: bool = True) -> Trace:
    """A random trace of one to three steps that passes `check`: forward, then something like backward, then updates.

    collectives: one in eight is of a rank of several.
    """
    shape = draw(dice(96))
    ops = [draw(dice(20)) for _ in range(min_ops + shape.roll(max_ops - min_ops + 1))]
    trace = _Writer(shape, ops, collectives).trace()
    check(trace)
    return trace


@st.composite
def repeating(draw: st.DrawFn) -> Trace:
    """A step of forward and backward through 6 to 12 layers that can be planned; costs and sizes are random."""
    trace = synth(f"synth:{draw(st.sampled_from(['chain:12', 'tree:3', 'unet:3', 'holes:6']))}")
    costs, sizes = (draw(st.binary(min_size=n, max_size=n)) for n in (trace.n_ops, trace.n_storages))
    return replace(
        trace,
        cost_ns=np.array([1 + b % 10 for b in costs], np.int64),
        bytes=np.array([512 * (1 + b % 8) for b in sizes], np.int64),
    )


def in_a_row(steps: Sequence[Trace]) -> Trace:
    """One trace of steps that begin with the same input, storage 0, and leave nothing else behind."""
    b = TraceBuilder()
    b.storage(int(steps[0].bytes[0]), Role.INPUT, alive_at_start=True)
    for k, t in enumerate(steps):
        if k > 0:
            b.next_step()
        at = [0, *(b.storage(int(n), r) for n, r in zip(t.bytes[1:], t.role[1:], strict=True))]
        for i, (name, reads, creates) in enumerate(zip(t.name, t.reads, t.creates, strict=True)):
            cost = int(t.cost_ns[i])
            b.op(name, reads=[at[s] for s in reads], creates=[at[s] for s in creates], cost_ns=cost)
            for s in t.freed[t.freed_after == i].tolist():
                b.free(at[s])
    return b.build({"model": "steps in a row", "cost_source": "synthetic"})


def different_steps() -> st.SearchStrategy[Trace]:
    """Two or three steps like those of `repeating`; or one cut in two, so that the first makes what the second uses."""
    cut = st.builds(lambda t, k: replace(t, step=1 * (np.arange(t.n_ops) >= k)), repeating(), st.integers(1, 22))
    return st.lists(repeating(), min_size=2, max_size=3).map(in_a_row) | cut


@st.composite
def long_steps(draw: st.DrawFn) -> Trace:
    """A step through 64 or 80 layers, each with a handful of costs, that hardly ever add up to the same."""
    trace = synth(draw(st.sampled_from(["synth:chain:64", "synth:chain:80"])))
    costs = np.array(draw(st.lists(st.integers(50, 5000), min_size=5, max_size=5, unique=True)), np.int64)
    kinds, sizes = (draw(st.binary(min_size=n, max_size=n)) for n in (trace.n_ops, trace.n_storages))
    return replace(
        trace,
        cost_ns=costs[np.frombuffer(kinds, np.uint8) % 5] * 1009 + np.arange(trace.n_ops),
        bytes=np.array([512 * (1 + b % 3) for b in sizes], np.int64),
    )


class _Writer:
    """Writes a program op by op; what is freed, and when, is decided at the end, from the last uses."""

    def __init__(self, shape: Dice, ops: list[Dice], collectives: bool) -> None:
        self.shape, self.dice = shape, ops
        self.parallel = collectives and shape.one_in(8)  #: one rank of several, with collectives
        self.storages: list[tuple[int, Role, bool]] = []  # bytes, role, alive at the start
        self.last_use: list[int] = []  # of each storage
        self.ops: list[dict[str, Any]] = []
        self.made: list[int] = []  # the main result of each op so far

    def trace(self) -> Trace:
        roles = [Role.INPUT, Role.PARAMETER, Role.BUFFER, Role.INPUT, Role.OPTIMIZER_STATE]
        self.made = [
            self.storage(self.shape, self.shape.pick(roles[: 1 + i * 4]), True) for i in range(1 + self.shape.roll(3))
        ]
        for dice in self.dice:
            self.op(dice)
        for parameter in self.of_roles(Role.PARAMETER):
            self.add(
                self.shape,
                {"reads": self.of_roles(Role.GRADIENT)[-1:], "mutates": [parameter], "phase": Phase.OPTIMIZER},
            )
        return self.build()

    def storage(self, dice: Dice, role: Role, at_start: bool = False) -> int:
        sizes = [4, 512] if role == Role.BUFFER else [512, 700] if role in _SMALL else SIZES
        self.storages.append((0 if dice.one_in(25) else dice.pick(sizes), role, at_start))
        self.last_use.append(len(self.ops) - at_start)
        return len(self.storages) - 1

    def of_roles(self, *roles: Role) -> list[int]:
        return [s for s, (_, role, _) in enumerate(self.storages) if role in roles]

    def op(self, dice: Dice) -> None:
        n, i = len(self.dice), len(self.ops)
        mirror = self.made[min(n - i, len(self.made) - 1)] if i >= n // 2 else self.made[-1]
        what: dict[str, Any] = {
            "reads": [self.made[-1], mirror, *dice.some(range(len(self.storages)), 1)][dice.roll(2) :]
        }
        kinds = ["make"] * 5 + ["mutate", "mutate and make", "batch norm", "gradient", "count", "forget"]
        kind = dice.pick(kinds)
        if dice.one_in(5):
            what["temporaries"] = [dice.pick([512, 300, 0, 1500]) for _ in range(1 + dice.roll(2))]
        if kind in ("mutate", "mutate and make"):
            what["mutates"] = dice.some(self.of_roles(Role.ACTIVATION, Role.INPUT, Role.GRADIENT)[-4:], 2)
        elif kind in ("batch norm", "count"):
            what["mutates"] = dice.some(self.of_roles(Role.BUFFER), 2)
        if kind in ("make", "mutate and make", "batch norm"):
            what["creates"] = [self.storage(dice, Role.ACTIVATION) for _ in range(1 + dice.one_in(4))]
        elif kind == "gradient":
            what["creates"] = [self.storage(dice, Role.GRADIENT)]
        if kind == "count":
            what["reads"] = what["reads"][:1]
        what["phase"] = Phase.BACKWARD if i >= n // 2 else Phase.FORWARD
        what["random"] = dice.one_in(6)
        what["peers"] = 2 * (self.parallel and dice.one_in(6))
        self.add(dice, what)

    def add(self, dice: Dice, what: dict[str, Any]) -> None:
        for verb in ("reads", "mutates", "creates"):
            for s in what.get(verb, ()):
                self.last_use[s] = len(self.ops)
        self.made.append((what.get("creates") or what.get("mutates") or what["reads"])[0])
        cost = dice.pick(COSTS)
        self.ops.append(
            what | {"name": dice.pick(NAMES), "cost_ns": cost, "flops": cost // 2 * 10, "bytes_moved": 64 * (1 + cost)}
        )

    def build(self) -> Trace:
        """Free storages after their last use, or later, or never; let some that stay take the places of others."""
        frees: dict[int, list[int]] = {}
        stays: list[int] = []
        for s, (_, role, _) in enumerate(self.storages):
            late = self.shape.pick([0, 0, 0, 0, 1, 2, 99] if role not in _SMALL else [99, 99, 0])
            when = self.last_use[s] + late
            if when < len(self.ops) and role != Role.PARAMETER:
                frees.setdefault(when, []).append(s)
            else:
                stays.append(s)
        successor = self.heirs(stays)
        if not self.shape.one_in(5):
            self.make_repeatable(frees, successor)
        b = TraceBuilder()
        for size, role, at_start in self.storages:
            b.storage(size, role, alive_at_start=at_start)
        for s in frees.get(-1, []):
            b.free(s)
        step_ends = {len(self.ops) * k // (1 + self.shape.pick([0, 0, 1, 2])) for k in (1, 2)}
        for i, op in enumerate(self.ops):
            if i in step_ends:
                b.next_step()
            b.op(**op)
            for s in frees.get(i, [])[:: self.shape.pick([1, -1])]:
                b.free(s)
        for s, heir in successor.items():
            b.becomes(s, heir)
        return b.build({"model": "random", "cost_source": "synthetic"})

    def heirs(self, stays: list[int]) -> dict[int, int]:
        """Whose place each takes: its own, that of another of the same bytes, or nobody's."""
        result = dict.fromkeys(stays, -1)
        places = [s for s, (_, _, at_start) in enumerate(self.storages) if at_start]
        for s in stays:
            size, _, at_start = self.storages[s]
            fitting = [h for h in places if self.storages[h][0] == size]
            if at_start and s in fitting and not self.shape.one_in(4):
                fitting = [s]
            if fitting and not self.shape.one_in(8):
                result[s] = self.shape.pick(fitting)
                places.remove(result[s])
        return result

    def make_repeatable(self, frees: dict[int, list[int]], successor: dict[int, int]) -> None:
        """Keep what was there at the start and would be used up, with nothing to take its place."""
        used_up = True
        while used_up:
            at_start = [s for s, storage in enumerate(self.storages) if storage[2]]
            used_up = sorted(set(at_start) - set(successor.values()))
            successor |= {s: s for s in used_up}
            for after, storages in frees.items():
                frees[after] = [s for s in storages if s not in used_up]


def repeatable(trace: Trace) -> bool:
    """Whether all that was there at the start is there again at the end, so that the trace can go round."""
    return set(np.flatnonzero(trace.alive_at_start & (trace.bytes > 0))) <= set(trace.becomes)


def peak_and_floor(trace: Trace, granule: int) -> tuple[int, int]:
    """Bytes that hold everything at once, and roughly the least that a replay needs: what is kept, and one op."""
    size = [-(-int(n) // granule) * granule for n in trace.bytes]
    kept_role = {*_SMALL, Role.BUFFER}
    alive = {s for s in range(trace.n_storages) if trace.alive_at_start[s]}
    kept = set(alive)
    peak = floor = sum(size[s] for s in alive)
    at = 0
    for o in range(trace.n_ops):
        alive |= set(trace.creates[o])
        kept |= {s for s in trace.creates[o] if trace.role[s] in kept_role}
        inside = sum(-(-n // granule) * granule for n in trace.temporaries[o])
        copies = sum(size[s] for s in trace.mutates[o])
        peak = max(peak, sum(size[s] for s in alive) + inside + copies)
        touched = {*trace.reads[o], *trace.mutates[o], *trace.creates[o]}
        floor = max(floor, sum(size[s] for s in kept | touched) + inside)
        while at < len(trace.freed) and trace.freed_after[at] <= o:
            alive.discard(int(trace.freed[at]))
            kept.discard(int(trace.freed[at]))
            at += 1
    return peak, min(floor, peak)


def budget(trace: Trace, granule: int, dice: Dice) -> int:
    """A budget between too little and more than enough, most of them tight."""
    peak, floor = peak_and_floor(trace, granule)
    return max(1, floor + (peak - floor) * dice.pick([80, 60, 70, 50, 90, 75, 40, 65, 30, 110, 85, 10, -10]) // 100)
