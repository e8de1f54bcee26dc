"""`python -m tests.study.oracle.fuzz`: random request streams on the simulation and on the real allocator; a table.

For every configuration class and version, on one CUDA stream, on several, and with private pools, as many requests as
asked for. A difference is shrunk and printed, and the exit code is 1. Versions that cannot be had here are named.
"""

import argparse
import json
import sys
import time
from collections import Counter

from coopsim.study.oracle import VERSIONS, Oracle, OracleError, oracle
from tests.study.oracle.compare import difference, shrink
from tests.study.oracle.confs import draw_conf
from tests.study.oracle.pools import draw_with_pools
from tests.study.oracle.streams import CLASSES, draw

LENGTHS = (200, 1000, 4000)
_POOLS = -1
_KINDS = {1: "one", 0: "several", _POOLS: "pools"}


def is_newer(version: str, than: str) -> bool:
    """Whether a version is that one or newer.

    >>> is_newer("2.11.0", "2.9.1")
    True
    """
    return [int(p) for p in version.split(".")] >= [int(p) for p in than.split(".")]


def versions(names: list[str]) -> list[Oracle]:
    """The oracles that can be had; the others are named on stderr."""
    found = []
    for name in names:
        try:
            found.append(oracle(name))
        except OracleError as e:
            print(f"torch {name}: {e}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="for each class, version and number of streams")
    parser.add_argument("--torch", default=",".join(VERSIONS), metavar="V,V")
    parser.add_argument("--classes", default=",".join(CLASSES), metavar="C,C")
    parser.add_argument("--streams", default="1,2,4,9", metavar="N,N", help="1, and what `several` is drawn from")
    parser.add_argument("--confs", type=int, default=1000, help="settings strings, right and wrong, for each version")
    parser.add_argument("--seed", default="0")
    args = parser.parse_args()
    oracles = versions(args.torch.split(","))
    numbers = [int(n) for n in args.streams.split(",")]
    several = [n for n in numbers if n > 1]
    bad: Counter[str] = Counter()
    print(f"{'class':<20}{'streams':<9}" + "".join(f"{o.version:>16}" for o in oracles), flush=True)
    start, total = time.monotonic(), 0
    for name in args.classes.split(","):
        for kind in ([1] if 1 in numbers else []) + ([0] if several else []) + [_POOLS]:
            done: Counter[str] = Counter()
            wrong: Counter[str] = Counter()
            k = 0
            asked = [o for o in oracles if is_newer(o.version, CLASSES[name][1])]
            while any(done[o.version] < args.requests for o in asked):
                seed, length = f"{args.seed}.{k}", LENGTHS[k % len(LENGTHS)]
                if kind == _POOLS:
                    stream = draw_with_pools(name, seed, length, numbers[k % len(numbers)])
                else:
                    stream = draw(name, seed, length, kind or several[k % len(several)])
                k += 1
                for o in asked:
                    done[o.version] += len(stream.ops)
                    if not difference(stream, o):
                        continue
                    wrong[o.version] += 1
                    if wrong[o.version] == 1:
                        small = shrink(stream, o)
                        print(f"{name} on torch {o.version}: {json.dumps(small.case())}", flush=True)
                        print("  ours {}\n  real {}".format(*(difference(small, o) or ("", ""))), flush=True)
            cells = "".join(
                f"{done[o.version]:>10}/{wrong[o.version]:<5}" if o in asked else f"{'-':>16}" for o in oracles
            )
            print(f"{name:<20}{_KINDS[kind]:<9}{cells}", flush=True)
            bad += wrong
            total += sum(done.values())
    wrong = Counter()
    for k in range(args.confs):
        stream = draw_conf(f"{args.seed}.{k}")
        for o in oracles:
            if found := difference(stream, o):
                wrong[o.version] += 1
                print(
                    f"settings {stream.conf!r} on torch {o.version}:\n  ours {found[0]}\n  real {found[1]}", flush=True
                )
    if args.confs:
        print(f"{'settings':<29}" + "".join(f"{args.confs:>10}/{wrong[o.version]:<5}" for o in oracles), flush=True)
    bad += wrong
    print(f"{total} requests, {sum(bad.values())} streams differ, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
