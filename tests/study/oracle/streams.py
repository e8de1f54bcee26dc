"""Random settings and request streams for the oracle. Everything follows from the seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Stream:
    """A request stream with its settings and device, as a case file has them."""

    conf: str
    total: int
    ops: list[str]

    def case(self) -> dict[str, object]:
        return {"conf": self.conf, "total": self.total, "ops": self.ops}


Setting = tuple[str, int, float | None]  # conf, bytes of the device, memory fraction
Draw = Callable[[random.Random], Setting]


def _of(*totals: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.choice(totals) * GIB


_small, _middle = _of(1, 2), _of(1, 2, 4)


def _split(rng: random.Random) -> str:
    return f"max_split_size_mb:{rng.choice([21, 32, 64, 128, 200])}"


def _gc(rng: random.Random) -> str:
    return f"garbage_collection_threshold:{rng.choice([0.2, 0.3, 0.5, 0.6, 0.8, 0.95])}"


def _limit(rng: random.Random) -> float:
    return rng.choice([0.1, 0.3, 0.5, 0.8, 0.95, 1.0])


def _setting(rng: random.Random) -> str:
    return f"per_process_memory_fraction:{_limit(rng)}"


def _power(rng: random.Random) -> str:
    return f"roundup_power2_divisions:{rng.choice([1, 2, 4, 8, 16])}"


def _list(rng: random.Random) -> str:
    intervals = sorted(rng.sample([1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096], rng.randint(0, 4)))
    entries = [f"{i}:{rng.choice([0, 1, 2, 4, 8, 16])}" for i in intervals]
    if not entries or rng.random() < 0.6:
        entries.append(f">:{rng.choice([0, 1, 2, 4, 8])}")
    return f"roundup_power2_divisions:[{','.join(entries)}]"


def _large(rng: random.Random) -> str:
    return f"large_segment_size_mb:{rng.choice([11, 12, 20, 24, 32, 64, 100])}"


def _reserve(rng: random.Random) -> str:
    return f"expandable_segments_reserve:{rng.choice(['0.05', '0.3', '0.5', '1.0', '2', '1G', '0.1G', 'x', '-1'])}"


_X = "expandable_segments:True"

#: name: settings to draw, and the first version that knows them
CLASSES: dict[str, tuple[Draw, str]] = {
    "default": (lambda r: ("", _small(r), None), "2.6.0"),
    "default_80g": (lambda r: ("", _of(80)(r), None), "2.6.0"),
    "max_split": (lambda r: (_split(r), _middle(r), None), "2.6.0"),
    "max_split_nonsplit": (
        lambda r: (f"{_split(r)},max_non_split_rounding_mb:{r.choice([21, 40, 100])}", _middle(r), None),
        "2.6.0",
    ),
    "roundup": (lambda r: (_power(r), _middle(r), None), "2.6.0"),
    "roundup_list": (lambda r: (_list(r), r.choice([2, 8]) * GIB, None), "2.6.0"),
    "gc": (lambda r: (_gc(r), _middle(r), _limit(r)), "2.6.0"),
    "gc_max_split": (lambda r: (f"{_gc(r)},{_split(r)}", _middle(r), _limit(r)), "2.6.0"),
    "fraction": (lambda r: ("", _middle(r), _limit(r)), "2.6.0"),
    "max_split_roundup": (lambda r: (f"{_split(r)},{_power(r)}", _middle(r), None), "2.6.0"),
    "expandable": (lambda r: (_X, _small(r), None), "2.6.0"),
    "expandable_maxsplit": (lambda r: (f"{_X},{_split(r)}", _small(r), None), "2.6.0"),
    "expandable_gc": (lambda r: (f"{_X},{_gc(r)}", _middle(r), _limit(r)), "2.6.0"),
    "expandable_roundup": (lambda r: (f"{_X},{_list(r)}", _middle(r), None), "2.6.0"),
    "expandable_fraction": (lambda r: (_X, _middle(r), _limit(r)), "2.6.0"),
    "expandable_all": (
        lambda r: (f"{_X},{_gc(r)},{_split(r)},{_power(r)},max_non_split_rounding_mb:30", _middle(r), _limit(r)),
        "2.6.0",
    ),
    "fraction_setting": (
        lambda r: (f"per_process_memory_fraction:{_limit(r)},{_gc(r)}", _middle(r), None),
        "2.10.0",
    ),
    "large_segment": (lambda r: (_large(r), _middle(r), None), "2.11.0"),
    "expandable_large": (lambda r: (f"{_large(r)},{_X},{_gc(r)}", _middle(r), _limit(r)), "2.11.0"),
    "throw_on_oom": (
        lambda r: (
            f"throw_on_cudamalloc_oom:True,{r.choice([_gc, _split, _power, _setting])(r)}",
            _small(r),
            r.choice([None, 0.5, 1.0]),
        ),
        "2.12.0",
    ),
    "expandable_reserve": (lambda r: (f"{_X},{_reserve(r)}", _small(r), None), "2.15.0"),
}


def draw(name: str, seed: str, length: int, streams: int) -> Stream:
    """A stream of about `length` requests in a configuration class, on that many CUDA streams."""
    rng = random.Random(f"{name} {seed} {length} {streams}")
    conf, total, fraction = CLASSES[name][0](rng)
    ops = [] if fraction is None else [f"F {fraction}"]
    return Stream(conf, total, ops + _requests(rng, length, streams))


def _sizes(rng: random.Random) -> list[int]:
    kinds = [
        lambda: rng.randint(0, 2000),
        lambda: rng.randint(1, MIB),
        lambda: rng.randint(MIB, 12 * MIB),
        lambda: rng.randint(MIB, 200 * MIB),
        lambda: MIB * rng.randint(1, 64),
        lambda: 512 * rng.randint(1, 4096),
        lambda: 1 << rng.randint(9, 28),
        lambda: (1 << rng.randint(9, 28)) + rng.choice([-512, -1, 1, 512]),
    ]
    few = rng.sample(kinds, rng.randint(1, len(kinds)))
    if rng.random() < 0.1:
        few.append(lambda: 1 << rng.randint(28, 40))
    return [rng.choice(few)() for _ in range(rng.randint(3, 40))]


def _requests(rng: random.Random, length: int, streams: int) -> list[str]:
    """Allocations and frees that swing between filling and draining, and now and then all else that there is."""
    pointers = [0, *(rng.choice([16 * i, rng.randrange(0, 1 << 47, 2)]) for i in range(1, streams))]
    out = [f"d {rng.choice([0, 3, 20, 200])}"] if streams > 1 else []
    sizes, live, n = _sizes(rng), list[int](), 0
    record = rng.choice([0.01, 0.05, 0.2]) if streams > 1 else 0.0
    empty, show = rng.choice([0.0, 0.002, 0.01]), 0.003
    lifo = rng.choice([0.2, 0.4, 0.8])
    while len(out) < length:
        grow = rng.choice([0.35, 0.5, 0.52, 0.6])
        for _ in range(rng.randint(20, 300)):
            x = rng.random()
            if x < empty:
                out.append("e")
            elif x < empty + show:
                out.append("s")
            elif x < empty + 2 * show:
                out.append("p")
            elif x < empty + 2 * show + 0.01:
                out.append(f"t {rng.randint(1, 30)}")
            elif live and rng.random() < record:
                out.append(f"r {rng.choice(live)} {rng.choice(pointers)}")
            elif not live or rng.random() < grow:
                n += 1
                nbytes = rng.choice(sizes)
                if rng.random() < 0.2:
                    nbytes = int(nbytes * rng.uniform(0.5, 1.5))
                stream = rng.choice([0, 0, 0, *pointers[1:]])
                out.append(f"a {n} {nbytes} {stream}")
                live.append(n)
            else:
                out.append(f"f {live.pop(-1 if rng.random() < lifo else rng.randrange(len(live)))}")
    return [*out, "s", "p"]
