"""The judge: it passes a sound schedule, and calls every planted fault by its name."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, Role
from coopsim.simulate.policies import Policy
from coopsim.study.validate import LIMIT, Fault, Reason, validate
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.schedule import Schedule
from tests import reference
from tests.schedules import of_rows, parse
from tests.strategies import Dice, budget, dice, policies, repeatable, traces


def tiny() -> Trace:
    """x and a weight w; y = f(x, w) with a temporary, z = g(y), y in place, a gradient of all ranks, an update of w."""
    b = TraceBuilder()
    x = b.storage(512, Role.INPUT, alive_at_start=True)
    w = b.storage(512, Role.PARAMETER, alive_at_start=True)
    y, z = b.storage(700), b.storage(1000)
    g = b.storage(512, Role.GRADIENT)
    b.op("aten.mm.default", reads=[x, w], creates=[y], temporaries=[300], cost_ns=5)
    b.op("aten.exp.default", reads=[y], creates=[z], cost_ns=3)
    b.op("aten.relu_.default", mutates=[y], cost_ns=2)
    b.op("c10d.reduce", reads=[z, y], creates=[g], cost_ns=7, peers=2)
    b.free(y)
    b.free(z)
    b.op("aten.add_.Tensor", reads=[g], mutates=[w], cost_ns=1)
    b.free(g)
    return b.build({"model": "tiny"})


#     address  0     512   1024  1536  2048  2560  3072
#     op 0     │ x   │ w   │ y.0       │ t   │           │
#     op 0'    │ x   │ w   │ t   │ y.0       │           │   y was evicted, and comes back elsewhere
#     op 1     │ x   │ w   │     │ y.0       │ z         │
#     op 2     │ x   │ w   │     │ y.1       │ z         │   in place
#     op 3     │ x   │ w   │ g   │ y.1       │ z         │
#     op 4     │ x   │ w.1 │ g   │                       │   in place
START = """
alloc s0.0 @ 0 +512
alloc s1.0 @ 512 +512
"""
ITERATION = """
alloc s2.0 @ 1024 +1024
alloc t0.0 @ 2048 +512
compute op 0
free t0.0 @ 2048 +512
evict s2.0 @ 1024 +1024
alloc s2.0 @ 1536 +1024
alloc t0.0 @ 1024 +512
recompute op 0
free t0.0 @ 1024 +512
alloc s3.0 @ 2560 +1024
compute op 1
compute op 2
move s2.1 @ 1536 +1024
alloc s4.0 @ 1024 +512
compute op 3
release s2.1 @ 1536 +1024
release s3.0 @ 2560 +1024
compute op 4
move s1.1 @ 512 +512
free s4.0 @ 1024 +512
move s1.0 @ 512 +512
"""
SOUND = START + ITERATION + ITERATION


def faults(text: str, /, **header: Any) -> list[Fault]:
    return validate(parse(text, tiny(), **header), tiny())


def test_sound() -> None:
    assert faults(SOUND) == []


def test_sound_in_a_counter() -> None:
    text = re.sub(r"@ \d+", "@ -1", SOUND).replace("+1024", "+700", 1)
    for storage, nbytes in ((2, 700), (3, 1000)):
        text = re.sub(rf"(s{storage}\.\d @ -1) \+\d+", rf"\1 +{nbytes}", text)
    text = re.sub(r"(t0\.0 @ -1) \+\d+", r"\1 +300", text)
    counter = {"allocator": "counter", "granule": 1}
    assert faults(text, **counter, budget_bytes=512 + 512 + 700 + 1000 + 512) == []
    [fault] = faults(text, **counter, budget_bytes=512 + 512 + 700 + 1000 + 511)[:1]
    assert fault.reason == Reason.OVER_BUDGET


def edit(old: str, new: str, *, nth: int = 0) -> str:
    """The sound schedule with one thing replaced."""
    parts = SOUND.split(old)
    assert len(parts) > nth + 1, old
    return old.join(parts[: nth + 1]) + new + old.join(parts[nth + 1 :])


PLANTED = [
    ("beyond the budget", edit("s3.0 @ 2560", "s3.0 @ 3072"), Reason.OUT_OF_BOUNDS),
    ("below 0", edit("s0.0 @ 0", "s0.0 @ -512"), Reason.OUT_OF_BOUNDS),
    ("the same address", edit("s2.0 @ 1024", "s2.0 @ 512"), Reason.OVERLAP),
    ("on the end of another", edit("alloc s3.0 @ 2560", "alloc s3.0 @ 2048"), Reason.OVERLAP),
    ("on the start of another", edit("alloc s4.0 @ 1024 +512", "alloc s4.0 @ 1024 +1024"), Reason.OVERLAP),
    ("odd address", edit("alloc s3.0 @ 2560", "alloc s3.0 @ 2570"), Reason.MISALIGNED),
    ("too few bytes", edit("s3.0 @ 2560 +1024", "s3.0 @ 2560 +512"), Reason.WRONG_SIZE),
    ("freed with other bytes", edit("free s4.0 @ 1024 +512", "free s4.0 @ 1024 +1024"), Reason.WRONG_SIZE),
    ("no such version", edit("alloc s2.0 @ 1024", "alloc s2.7 @ 1024"), Reason.UNKNOWN_VALUE),
    ("no such storage", edit("alloc s3.0", "alloc s33.0"), Reason.UNKNOWN_VALUE),
    ("no such temporary", edit("alloc t0.0", "alloc t0.1"), Reason.UNKNOWN_VALUE),
    ("a move out of nothing", edit("compute op 1\n", "compute op 1\nmove s3.1 @ 2560 +1024\n"), Reason.UNKNOWN_VALUE),
    ("another value's address", edit("release s3.0 @ 2560", "release s3.0 @ 1024"), Reason.WRONG_CONTENT),
    ("in place of another", edit("move s2.1 @ 1536", "move s2.1 @ 2560"), Reason.WRONG_CONTENT),
    ("twice in memory", edit("evict s2.0 @ 1024 +1024\n", ""), Reason.ALLOCATED_TWICE),
    ("no bytes for a result", edit("alloc s3.0 @ 2560 +1024\n", ""), Reason.NO_ROOM),
    ("no bytes for a temporary", edit("alloc t0.0 @ 2048 +512\n", ""), Reason.NO_ROOM),
    ("no bytes for a new version", edit("move s2.1 @ 1536 +1024\n", ""), Reason.NO_ROOM),
    ("no bytes at the start", edit("alloc s0.0 @ 0 +512\n", ""), Reason.NO_ROOM),
    ("bytes for nothing", edit("compute op 1\n", "alloc s4.0 @ 1024 +512\ncompute op 1\n"), Reason.UNUSED),
    ("an input evicted", edit("compute op 3\n", "evict s3.0 @ 2560 +1024\ncompute op 3\n"), Reason.MISSING_INPUT),
    ("an old version", edit("compute op 2\nmove s2.1 @ 1536 +1024\n", ""), Reason.WRONG_ORDER),
    ("half-made input", edit("recompute op 0\nfree t0.0 @ 1024 +512\n", "free t0.0 @ 1024 +512\n"), Reason.HALF_MADE),
    ("an op left out", edit("compute op 1\n", ""), Reason.WRONG_ORDER),
    ("an op twice", edit("compute op 2\n", "compute op 1\ncompute op 2\n"), Reason.WRONG_ORDER),
    ("recomputed before computed", edit("recompute op 0", "recompute op 3"), Reason.WRONG_ORDER),
    ("a collective again", edit("compute op 4\n", "recompute op 3\ncompute op 4\n"), Reason.COLLECTIVE),
    ("no such op", edit("compute op 4", "compute op 44"), Reason.WRONG_ORDER),
    ("freed twice", edit("free s4.0 @ 1024 +512\n", "free s4.0 @ 1024 +512\n" * 2), Reason.DOUBLE_FREE),
    ("dropped before it is made", edit("compute op 1\n", "evict s3.0 @ 2560 +1024\ncompute op 1\n"), Reason.HALF_MADE),
    ("weight evicted", edit("compute op 1\n", "evict s1.0 @ 512 +512\ncompute op 1\n"), Reason.NOT_EVICTABLE),
    ("input evicted", edit("compute op 1\n", "evict s0.0 @ 0 +512\ncompute op 1\n"), Reason.NOT_EVICTABLE),
    ("gradient evicted", edit("compute op 4\n", "evict s4.0 @ 1024 +512\ncompute op 4\n"), Reason.NOT_EVICTABLE),
    ("temporary evicted", edit("free t0.0 @ 2048", "evict t0.0 @ 2048"), Reason.NOT_EVICTABLE),
    ("freed while held", edit("compute op 3\n", "free s3.0 @ 2560 +1024\ncompute op 3\n"), Reason.TOO_EARLY),
    ("released while held", edit("evict s2.0", "release s2.0"), Reason.TOO_EARLY),
    ("temporary left", edit("free t0.0 @ 2048 +512\n", ""), Reason.LEAK),
    ("gradient left", edit("free s4.0 @ 1024 +512\n", ""), Reason.LEAK),
    ("gradient left at the end", edit("free s4.0 @ 1024 +512\n", "", nth=1), Reason.LEAK),
    ("weight lost", edit("move s1.0 @ 512 +512", "free s1.1 @ 512 +512"), Reason.NOT_HANDED_ON),
    ("weight lost at the end", edit("move s1.0 @ 512 +512", "free s1.1 @ 512 +512", nth=1), Reason.NOT_HANDED_ON),
    ("weight not renamed", edit("move s1.0 @ 512 +512\n", ""), Reason.NOT_HANDED_ON),
    ("weight not renamed at the end", edit("move s1.0 @ 512 +512\n", "", nth=1), Reason.NOT_HANDED_ON),
    ("a step short", START + ITERATION, Reason.UNFINISHED),
    ("an op short", SOUND[: SOUND.rindex("compute op 4")], Reason.UNFINISHED),
    ("a step more", SOUND + ITERATION, Reason.WRONG_ORDER),
    ("nothing", "", Reason.UNFINISHED),
]


@pytest.mark.parametrize(("text", "reason"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_planted(text: str, reason: Reason) -> None:
    found = faults(text)
    assert reason in [fault.reason for fault in found]
    assert len(found) <= LIMIT


def test_every_reason_is_planted() -> None:
    elsewhere = {Reason.OVER_BUDGET, Reason.STALE_VERSION, Reason.WRONG_TIME, Reason.BAD_HEADER}
    elsewhere |= {Reason.COPIED_TWICE, Reason.NOT_ON_HOST, Reason.STALE_COPY, Reason.HALF_COPIED}  # test_copies.py
    elsewhere |= {Reason.NOT_OFFLOADABLE, Reason.OVER_HOST_MEMORY, Reason.ONLY_COPY}
    assert {case[2] for case in PLANTED} | elsewhere == set(Reason)


def test_stale_version() -> None:
    """Copy on write, and the op after it finds only the copy's original."""
    moved = "compute op 2\nmove s2.1 @ 1536 +1024\nalloc s4.0 @ 1024 +512\ncompute op 3\nrelease s2.1 @ 1536 +1024\n"
    copied = (
        "free s2.0 @ 1536 +1024\nalloc s2.1 @ 1536 +1024\ncompute op 2\nalloc s4.0 @ 1024 +512\n"
        "compute op 3\nrelease s2.1 @ 1536 +1024\n"
    )
    stale = moved.replace("compute op 2\nmove s2.1 @ 1536 +1024\n", "").replace("s2.1", "s2.0")
    assert Reason.TOO_EARLY in [fault.reason for fault in faults(edit(moved, copied))]
    found = faults(edit(moved, stale))
    assert [fault.reason for fault in found][:2] == [Reason.WRONG_ORDER, Reason.STALE_VERSION]
    assert "op 3 reads s2.1" in found[1].message


def test_the_fault_names_row_and_reason() -> None:
    [fault] = faults(edit("alloc s3.0 @ 2560", "alloc s3.0 @ 2048"))[:1]
    assert (fault.reason, fault.seq) == (Reason.OVERLAP, 11)
    assert str(fault) == "row 11: overlap: s3.0 at 2048 lies on the bytes of another at 1536"


def test_a_wrong_clock_is_told_once() -> None:
    schedule = parse(SOUND, tiny())
    late = schedule.time_ns + (np.arange(len(schedule)) > 10)
    assert [(f.reason, f.seq) for f in validate(replace(schedule, time_ns=late), tiny())] == [(Reason.WRONG_TIME, 11)]


def test_steps_are_checked() -> None:
    schedule = parse(SOUND, tiny())
    found = validate(replace(schedule, step=schedule.step * 0), tiny())
    assert {f.reason for f in found} == {Reason.WRONG_ORDER}
    assert len(found) == 6  # five ops and a recomputation of the second step


def test_a_replay_that_stopped_may_stop_anywhere() -> None:
    lines = SOUND.strip().splitlines()
    for n in range(len(lines)):
        assert faults("\n".join(lines[:n]), outcome="oom") == []
        assert faults("\n".join(lines[:n])) != []


@pytest.mark.parametrize(
    "header",
    [
        {"trace": "blake2b:0"},
        {"outcome": "fine"},
        {"allocator": "magic"},
        {"granule": 1},
        {"allocator": "counter"},
        {"budget_bytes": 0},
        {"budget_bytes": None},
        {"steps": 0},
    ],
    ids=str,
)
def test_bad_header(header: dict[str, Any]) -> None:
    found = faults(SOUND, **header)
    assert {(f.reason, f.seq) for f in found} == {(Reason.BAD_HEADER, -1)}


def test_twenty_faults_are_enough() -> None:
    assert len(faults(re.sub("@ (?=\\d)", "@ 1", SOUND))) == LIMIT


def by_reference(trace: Trace, policy: Policy, roll: Dice) -> Schedule:
    """A whole number of iterations that came to their end."""
    allocator = roll.pick(["arena", "arena", "counter"])
    granule = reference.GRANULE[allocator]
    nbytes = budget(trace, granule, roll)
    steps = trace.n_steps * (1 + repeatable(trace))
    outcome, rows = reference.replay(trace, policy, allocator, nbytes, steps)
    assume(outcome == "ok")
    header = {"allocator": allocator, "granule": granule, "budget_bytes": nbytes, "steps": steps}
    header["choices"] = {"dead": str(policy.dead)}
    return of_rows(rows, trace, **header)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(traces(), policies(), dice(8), st.integers(0, 1 << 30))
def test_every_row_counts(trace: Trace, policy: Policy, roll: Dice, seed: int) -> None:
    """Take any row out of a sound schedule, or do any row twice: no longer sound."""
    schedule = by_reference(trace, policy, roll)
    assert validate(schedule, trace) == []
    rows = schedule.rows()
    for i in {seed % len(rows), seed // 7 % len(rows), seed // 91 % len(rows)}:
        without = of_rows(rows[:i] + rows[i + 1 :], trace, **schedule.header)
        assert validate(without, trace), f"without row {i}"
        twice = of_rows(rows[: i + 1] + rows[i:], trace, **schedule.header)
        if rows[i][0] != Action.RECOMPUTE:  # which is wasteful, but sound
            assert validate(twice, trace), f"row {i} twice"
