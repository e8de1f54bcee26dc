"""What GMLake holds after each request, and random requests for it."""

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coopsim.base.types import MIB
from coopsim.simulate.allocators.serving.gmlake import GIB, GMLake, GmlakeOptions, Handle
from coopsim.simulate.allocators.serving.result import ServingOutOfMemory

#: ("a", number, bytes, stream), ("f", number), ("r", number, stream), ("e",), ("t", ticks), ("d", ticks): the letters
#: of a case file (docs/allocators.md).
Op = tuple[str, *tuple[int, ...]]


class Answer(NamedTuple):
    """After a request. Sizes in bytes; the rest counts from the start, but `refused`: this request."""

    reserved: int
    active: int
    segments: int
    stitches: int
    stitched_chunks: int
    refused: int
    faults: int


def answers(ops: Iterable[Op], options: GmlakeOptions) -> Iterator[Answer]:
    """One for each request; what is done with a refused allocation is left out, but answered."""
    g = GMLake(options)
    held: dict[int, Handle] = {}
    for op, *x in ops:
        refused = 0
        if op == "a":
            try:
                held[x[0]] = g.take(x[1], x[2])
            except ServingOutOfMemory:
                refused = 1
        elif op == "f" and x[0] in held:
            g.give_back(held.pop(x[0]))
        elif op == "r" and x[0] in held:
            g.record_stream(held[x[0]], x[1])
        elif op == "e":
            g.empty_cache()
        elif op == "t":
            g.clock.now += x[0]
        elif op == "d":
            g.clock.delay = x[0]
        now, s = g.meter.now, g.sblocks
        active = now["allocated"] + now["waiting"]
        yield Answer(now["reserved"], active, g.meter.device_allocs, s.made, s.mapped_chunks, refused, s.faults)


def draw(seed: int) -> tuple[list[Op], GmlakeOptions]:
    """Requests within some bytes, often near those of the device, and settings that make every rule matter."""
    dice = random.Random(f"gmlake {seed}")
    memory = dice.choice([None, 100, 200, 400, 1000])
    most = int((memory or dice.choice([100, 300, 1000])) * dice.choice([0.6, 0.8, 0.95])) * MIB
    options = GmlakeOptions(
        frag_limit=dice.choice([2, 2, 4, 16, 64]) * MIB,
        reuse_limit=dice.choice([1, 1.5, 2, 10, 10]),
        defrag_level=dice.choice([0, 0, 0, 1, 2, 3, 5]),
        auto_gc=dice.choice([0, 1, 2, 1000, 1000]) * GIB,
        realloc=dice.random() < 0.35,
        memory=None if memory is None else memory * MIB,
    )
    n_streams, with_events, with_empty = dice.choice([1, 1, 2]), dice.random() < 0.4, dice.random() < 0.3
    largest = dice.choice([0.1, 0.3, 0.6]) * most
    ops: list[Op] = []
    held: dict[int, int] = {}
    for number in range(dice.choice([100, 300, 600])):
        nbytes = _bytes(dice, largest)
        while held and (sum(held.values()) + nbytes > most or dice.random() < 0.3):
            gone = dice.choice(list(held))
            del held[gone]
            ops.append(("f", gone))
        if with_empty and dice.random() < 0.03:
            ops.append(("e",))
        if with_events:
            ops += [("d", dice.choice([0, 0, 3, 10]))] if dice.random() < 0.1 else []
            ops += [("t", dice.choice([1, 2, 5]))] if dice.random() < 0.3 else []
        ops.append(("a", number, nbytes, dice.randrange(n_streams)))
        held[number] = nbytes
        if with_events and dice.random() < 0.15:
            ops.append(("r", dice.choice(list(held)), dice.randrange(3)))
    return ops, options


def _bytes(dice: random.Random, largest: float) -> int:
    kind = dice.random()
    if kind < 0.1:
        return dice.choice([1, 512, 5000, MIB, MIB - 1, 300_000])
    if kind < 0.6:
        return dice.choice([2, 2, 4, 6, 8, 9, 10, 12, 16, 20]) * MIB - dice.choice([0, 0, 1, 513])
    return int(dice.uniform(1.1 * MIB, largest))
