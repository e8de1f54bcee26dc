"""Random settings strings, right and wrong, and a request stream on which every setting shows."""

import random

from coopsim.simulate.allocators.caching.version import VERSIONS
from tests.study.oracle.streams import MIB, Stream

KEYS = sorted(frozenset().union(*(v.keys for v in VERSIONS.values())))
ODD = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "8",
    "10",
    "11",
    "12",
    "19",
    "20",
    "21",
    "24",
    "32",
    "64",
    "100",
    "128",
    "256",
    "1024",
    "-1",
    "-5",
    "+32",
    "64abc",
    "abc",
    "0.5",
    "0.3",
    "1.0",
    "1e-2",
    "nan",
    "inf",
    "0x10",
    ".5",
    "2147483648",
    "99999999999999999999",
    "17592186044416",
    "1e400",
    "1e-320",
    "True",
    "False",
    "true",
    "native",
    "foo",
    ">",
    "0.1G",
    "1G",
    "0.1g",
    "G",
    "-1G",
]
SOUND = {
    "backend": "native",
    "expandable_segments_reserve": "0.1 0.2 1G",
    "expandable_segments_reserve_by_class": "[a:0.1] [a:0.1,b:1G]",
    "garbage_collection_threshold": "0.5 0.3 0.9",
    "per_process_memory_fraction": "0.5 0.3 1.0",
    "pinned_num_register_threads": "4",
    "roundup_power2_divisions": "1 2 4 8",
}


def _request_stream() -> list[str]:
    sizes = [1000, 600_000, 1_200_000, 1_500_000, 3_000_000, 5_000_000]
    sizes += [n * MIB for n in (11, 14, 30, 33, 70, 100, 150, 300, 70, 25)]
    ops = []
    for i, nbytes in enumerate(sizes):
        ops.append(f"a {i} {nbytes} 0")
        if i % 3 == 2:
            ops.append(f"f {i - 1}")
    ops += ["s", *(f"a {100 + n} {n * MIB} 0" for n in (50, 29, 9, 400, 120))]
    return [*ops, "s", "p"]


REQUESTS = _request_stream()


def _value(rng: random.Random, key: str) -> str:
    if key == "roundup_power2_divisions" and rng.random() < 0.7:
        intervals = ["1", "2", "64", "256", ">"] * 3 + ["1024", "32768", "131072", "3", "0", "x"]
        values = ["0", "1", "2", "4", "8"] * 3 + ["3", "x", "-1", ""]
        entries = [
            rng.choice(intervals) + rng.choice("::::::::::,") + rng.choice(values) for _ in range(rng.randint(0, 4))
        ]
        return (
            rng.choice(["["] * 10 + [""]) + rng.choice(",,,,,,,:").join(entries) + rng.choice(["]"] * 12 + ["", "]]"])
        )
    if rng.random() < 0.65:
        return rng.choice(SOUND.get(key, "20 21 32 64 100 11" if key.endswith("_mb") else "True False").split())
    value = rng.choice(ODD)
    return f"[{value}]" if rng.random() < 0.1 else value


def draw_conf(seed: str) -> Stream:
    """One to four settings, most of them sound, with now and then a wrong separator."""
    rng = random.Random(f"settings {seed}")
    parts = []
    for _ in range(rng.randint(1, 4)):
        key = rng.choice(KEYS) if rng.random() < 0.97 else "foo"
        parts.append(key + rng.choice([":"] * 25 + ["", ",", "::"]) + _value(rng, key))
    text = rng.choice([","] * 25 + [" ", ",,", ":"]).join(parts) + rng.choice([""] * 20 + [",", "]", ":"])
    return Stream(text, 1 << 30, REQUESTS)
