"""`python benchmarks/allocator.py`: the simulated caching allocator and the real one on the same request streams.

Prints simulated requests per second divided by those of the real C++ library (on a stand-in driver that costs next to
nothing), best of some runs each, for every kind of stream. Above 1 the simulation is the faster one. Needs an oracle
(coopsim/study/oracle): the installed torch, or one in $COOPSIM_ORACLE_CACHE. Absolute figures say more about the
machine than about either program, and are not printed.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from coopsim.simulate.allocators.caching import case
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.study.oracle import Oracle, oracle
from coopsim.trace.request_rows import STOP
from tests.study.oracle.streams import Stream, draw

RUNS = 5
GIB, MIB = 1 << 30, 1 << 20


def training(length: int) -> Stream:
    """The same step over and over: what a layer keeps is freed in reverse order, and it has a workspace."""
    rng = random.Random(1)
    layers = [(rng.choice([1, 4, 16, 64]) * MIB, rng.randint(1, 32 * MIB)) for _ in range(100)]
    ops: list[str] = []
    n = 0
    while len(ops) < length:
        held = []
        for keeps, workspace in layers:
            ops += [f"a {n} {keeps} 0", f"a {n + 1} {workspace} 0", f"f {n + 1}"]
            held.append(n)
            n += 2
        for number in reversed(held):
            ops += [f"a {n} {2 * MIB} 0", f"f {n}", f"f {number}"]
            n += 1
    return Stream("", 80 * GIB, ops)


def scattered(length: int) -> Stream:
    """Sizes and lifetimes at random, thousands of blocks: the worst that a sorted set can meet."""
    rng = random.Random(2)
    ops: list[str] = []
    live: list[int] = []
    for n in range(length):
        if live and (len(live) > 5000 or rng.random() < 0.48):
            at = rng.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            ops.append(f"f {live.pop()}")
        else:
            ops.append(f"a {n} {rng.choice([rng.randint(1, MIB), rng.randint(1, 4 * MIB)])} 0")
            live.append(n)
    return Stream("", 80 * GIB, ops)


def streams(length: int) -> dict[str, Stream]:
    """Kinds of streams by name: the two extremes, and those of the fuzz."""
    found = {"training": training(length), "scattered": scattered(length)}
    for name in ("default", "default_80g", "max_split", "gc", "expandable", "expandable_all"):
        for several in (1, 4):
            stream = draw(name, "benchmark", length, several)
            ops = [op for op in stream.ops if op[0] not in "sp"]  # printing is not what is measured
            found[f"{name}, {'one stream' if several == 1 else 'several'}"] = Stream(stream.conf, stream.total, ops)
    return found


def simulated_seconds(stream: Stream, version: str) -> float:
    """How long the simulation takes for all of it."""
    requests = case.read(stream.ops)
    allocator = CachingAllocator(version, stream.conf, stream.total)
    if stream.ops[0].startswith("F"):
        allocator.set_memory_fraction(case.fraction_of(stream.ops[0]))
        requests = requests[1:]
    assert STOP not in requests[:, 0]
    start = time.perf_counter()
    allocator.run(requests)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="2.15.0", metavar="V")
    parser.add_argument("--requests", type=int, default=200_000)
    args = parser.parse_args()
    real: Oracle = oracle(args.torch)
    for name, stream in streams(args.requests).items():
        simulated_seconds(stream, args.torch)  # compiles
        pairs = [
            (real.seconds(stream.conf, stream.total, stream.ops), simulated_seconds(stream, args.torch))
            for _ in range(RUNS)
        ]
        ours, theirs = min(b for _, b in pairs), min(a for a, _ in pairs)
        print(f"{name:<32}{theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
