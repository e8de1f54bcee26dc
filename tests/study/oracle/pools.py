"""Request streams with private pools: those of streams.py, in which pools are begun, ended and released at random."""

import random
from dataclasses import replace

from tests.study.oracle.streams import Stream, draw


def draw_with_pools(name: str, seed: str, length: int, streams: int) -> Stream:
    """A stream of a configuration class with private pools, of users and of captures, several at a time.

    Two things depend on where PyTorch's own records lie in this machine's memory (docs/allocators.md), so the
    same requests have more than one answer, and are left out here: the streams recorded in captures are others than
    those recorded elsewhere, and of the blocks with recorded streams only one is freed before captures end.
    """
    stream = draw(name, f"pools {seed}", length, streams)
    return replace(stream, ops=_with_pools(random.Random(f"{name} {seed} {length} {streams} pools"), stream.ops))


def _with_pools(rng: random.Random, ops: list[str]) -> list[str]:
    pointers = sorted({op.split()[3] for op in ops if op[0] == "a"})
    often = rng.choice([0.01, 0.03, 0.1])
    capturing = rng.choice([0.2, 0.5, 0.9])
    out: list[str] = []
    users: dict[int, int] = {}
    begun: dict[int, str] = {}
    recorded: set[str] = set()
    waits, later = False, list[str]()
    for op in ops:
        if not begun and op[0] == "a":
            waits = False
            out += later
            later.clear()
        if rng.random() < often:
            out.append(_pool_request(rng, users, begun, pointers, capturing))
        if op[0] == "r" and begun:
            if "c" not in begun.values():
                continue
            _, number, pointer = op.split()
            op = f"r {number} {int(pointer) + 2}"
        if op[0] == "r":
            recorded.add(op.split()[1])
        if op[0] == "f" and begun and op.split()[1] in recorded:
            if waits:
                later.append(op)
                continue
            waits = True
        out.append(op)
    return out + ([] if begun else later) + ["s", "p"]


def _pool_request(
    rng: random.Random, users: dict[int, int], begun: dict[int, str], pointers: list[str], capturing: float
) -> str:
    """Begin a new pool or one that has users, end one, release one, or empty one."""
    x = rng.random()
    if begun and x < 0.35 + 0.2 * len(begun):
        pool = rng.choice(list(begun))
        del begun[pool]
        return f"n {pool}"
    held = [pool for pool, n in users.items() if n]
    left = [pool for pool in held if pool not in begun or users[pool] > 1]
    if left and x < 0.65:
        pool = rng.choice(left)
        users[pool] -= 1
        return f"x {pool}"
    if users and x < 0.75:
        return f"E {rng.choice(list(users))}"
    again = [pool for pool in held if pool not in begun]
    pool = rng.choice(again) if again and rng.random() < 0.5 else len(users) + 1
    begun[pool] = "c" if rng.random() < capturing else "b"
    users[pool] = users.get(pool, 0) + 1
    return f"{begun[pool]} {pool} {rng.choice(['-1', *pointers])}"
