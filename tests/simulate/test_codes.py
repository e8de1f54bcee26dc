"""Kernels take their integers from the enums of types.py: in another order the same decisions come out."""

import os
import subprocess
import sys

REPLAYS = """
import hashlib
from coopsim.simulate import policies, simrd
from coopsim.simulate.replay import replay
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make

MORE = ["dtr-eq:release=banish", "coop:release=needed,dead=needed", "coop:recency=next_use", "coop:cost=ancestors"]

def seen(schedule):
    rows = [schedule.action, schedule.op, schedule.storage, schedule.version, schedule.address, schedule.visits]
    return schedule.header["outcome"], hashlib.sha256(b"".join(column.tobytes() for column in rows)).hexdigest()

trace = make("synth:chain:8")
peak = peak_bytes(trace)
for name in policies.names() + MORE:
    for allocator in ("arena", "counter", "cuda-caching"):
        print(name, allocator, *seen(replay(trace, name, 7 * peak // 10, allocator, steps=2)))
for percent in (100, 60, 20):
    print(*seen(replay(trace, "coop", peak * percent // 100, overhead_limit=1.01)))
    print(*seen(simrd.replay_simrd(trace, "dtr", peak * percent // 100)))
"""

REVERSED = """
import coopsim.base.types
from enum import Enum, StrEnum

for name, kind in list(vars(coopsim.base.types).items()):
    if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum:
        setattr(coopsim.base.types, name, StrEnum(name, [(m.name, m.value) for m in reversed(kind)]))
assert list(coopsim.base.types.Outcome)[-1] == "ok"
"""


def _run(code: str) -> list[str]:
    """What it prints. Not compiled: the cache knows machine code by the sources alone."""
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_another_order_of_the_choices_changes_nothing() -> None:
    straight = _run(REPLAYS)
    assert len({line.split()[-1] for line in straight}) > 20
    assert {line.split()[-2] for line in straight} >= {"ok", "oom", "thrash"}
    assert _run(REVERSED + REPLAYS) == straight
