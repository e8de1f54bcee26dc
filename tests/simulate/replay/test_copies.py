"""Offload, worked out by hand: the reference gives these schedules, so does the core; the judge and the timeline agree.

A copy of one unit (512 bytes) takes 4 ns alone: latency 2, and 2 at 256 GB/s.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from coopsim.base.types import Action, CoopsimError, Role
from coopsim.cards.link import Link
from coopsim.simulate import policies
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import Params, simulate
from coopsim.study.validate import Reason, validate
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.schedule import Schedule
from tests import reference
from tests.schedules import UNIT as U
from tests.schedules import of_rows

LINK = Link("by hand", 256_000, 128_000, 2)
ROOMY = 1 << 40


def three() -> Trace:
    """a, b, c from x, 10 ns each, a unit each; then b and a are needed; a weight that the last op updates."""
    b = TraceBuilder()
    x = b.storage(U, Role.INPUT, alive_at_start=True)
    w = b.storage(U, Role.PARAMETER, alive_at_start=True)
    va, vb, vc, vd, ve = (b.storage(U) for _ in range(5))
    for made in (va, vb, vc):
        b.op("aten.relu.default", reads=[x], creates=[made], cost_ns=10)
    b.free(vc)
    b.op("aten.relu.default", reads=[vb], creates=[vd], cost_ns=10)
    b.op("aten.add_.Tensor", reads=[va, vd], mutates=[w], cost_ns=10)
    b.op("aten.add.Tensor", reads=[w, va], creates=[ve], cost_ns=10)
    for s in (va, vb, vd, ve):
        b.free(s)
    return b.build({"model": "three"})


def both(spec: str, units: int, *, host: int = ROOMY, steps: int = 1, trace: Trace | None = None) -> Schedule:
    """What the core does, once it is sure that the reference does the same and the judge agrees."""
    policy, trace = policies.find(spec), trace or three()
    how: dict[str, Any] = {"allocator": "arena", "budget": units * U, "steps": steps, "link": LINK, "host_memory": host}
    outcome, rows = reference.replay(trace, policy, **how)
    schedule = replay(trace, policy, **how)
    assert [row[:8] for row in schedule.rows()] == [row[:8] for row in rows]
    assert schedule.header["outcome"] == outcome
    assert validate(schedule, trace) == []
    return schedule


def timed(schedule: Schedule) -> list[str]:
    """Lines with the time of each row, without addresses."""
    lines = [re.sub(r"^\d+ | @ -?\d+ \+\d+", "", line) for line in schedule.text().splitlines()]
    return [f"{t} {' '.join(line.split())}" for t, line in zip(schedule.time_ns.tolist(), lines, strict=True)]


def test_an_allocation_waits_for_the_copy_out_and_an_op_for_the_copy_back() -> None:
    """Four units, and x and the weight stay. Op 2 needs the place of a (s2), op 4 needs it back and that of b (s3)."""
    schedule = both("swap-lru", 4)
    assert timed(schedule) == [
        "0 alloc s0.0",
        "0 alloc s1.0",
        "0 alloc s2.0",
        "0 compute op 0",
        "10 alloc s3.0",
        "10 compute op 1",
        "20 offload s2.0",
        "24 evict s2.0",
        "24 alloc s4.0",
        "24 compute op 2",
        "34 release s4.0",
        "34 alloc s5.0",
        "34 compute op 3",
        "44 offload s3.0",
        "48 evict s3.0",
        "48 alloc s2.0",
        "48 fetch s2.0",
        "52 compute op 4",
        "52 move s1.1",
        "62 offload s5.0",
        "66 evict s5.0",
        "66 alloc s6.0",
        "66 compute op 5",
        "76 discard s2.0",
        "76 release s2.0",
        "76 discard s3.0",
        "76 discard s5.0",
        "76 release s6.0",
        "76 move s1.0",
    ]
    h = schedule.header
    assert (h["stall_ns"], h["total_cost_ns"], h["overhead_limit"]) == (16, 76, 10.0)
    assert (h["offloads"], h["offloaded_bytes"], h["fetches"], h["fetched_bytes"]) == (3, 3 * U, 1, U)
    assert (h["host_peak_bytes"], h["host_memory_bytes"], h["link"]) == (3 * U, ROOMY, "by hand")


def test_both_directions_share_the_host() -> None:
    """In three units with state, op 4 at 52 ns: a is fetched until 56; b's copy out, slower until then, ends at 58.

    The weight (s1) is fetched from 58 on; the update in place makes its copy stale. x, whose copy the host still has in
    the second step, goes for nothing.
    """
    lines = timed(both("swap-lru:offload_state=yes", 3, steps=2))
    assert lines[15:31] == [
        "48 offload s0.0",
        "52 evict s0.0",
        "52 alloc s2.0",
        "52 fetch s2.0",
        "52 offload s3.0",
        "58 evict s3.0",
        "58 alloc s1.0",
        "58 fetch s1.0",
        "62 compute op 4",
        "62 move s1.1",
        "72 discard s1.0",
        "72 offload s5.0",
        "76 evict s5.0",
        "76 alloc s6.0",
        "76 compute op 5",
        "86 discard s2.0",
    ]
    assert lines[lines.index("138 evict s0.0") - 1] == "128 compute op 3"


@pytest.mark.parametrize(
    ("spec", "units"), [("swap-lru", 4), ("swap-lru:offload_state=yes", 3), ("coop:lose=either", 4)]
)
def test_the_timeline_has_the_same_stall(spec: str, units: int) -> None:
    schedule = both(spec, units, steps=2)
    line = simulate(schedule, three(), Params(0, 0, 0, 0.0, 0, 4))
    assert (line.total_ns, line.stall_ns) == (schedule.header["total_cost_ns"], schedule.header["stall_ns"])
    assert line.stall_ns > 0


def test_the_cheaper_way() -> None:
    """Making a takes 10 ns, copying it there and back 8. Over a slower link 16: it is made again.

    Not so d, which would be made from b, which is missing: 20.
    """
    found = both("coop:lose=either", 4).header
    assert (found["offloads"], found["recomputes"], found["outcome"]) == (3, 0, "ok")
    slow = replay(three(), "coop:lose=either", 4 * U, steps=1, link=Link("slow", 100_000, 100_000, 2))
    assert (slow.header["offloads"], slow.header["recomputes"], slow.header["outcome"]) == (1, 1, "ok")
    assert [row[3] for row in slow.rows() if row[0] == Action.OFFLOAD] == [5]


def test_the_host_has_a_budget() -> None:
    """A host without room: nothing can be offloaded, so that only recomputation is left."""
    assert both("swap-lru", 4, host=U - 1).header["outcome"] == "oom"
    assert both("coop:lose=either", 4, host=U - 1).header["offloads"] == 0
    one = both("swap-lru:offload_state=yes", 4, host=2 * U)
    assert one.header["host_peak_bytes"] <= 2 * U
    assert "discard" in one.text()


def test_what_cannot_be_recomputed_can_be_offloaded() -> None:
    """A result of a random op that is kept, and one of a collective."""
    b = TraceBuilder()
    x = b.storage(U, Role.INPUT, alive_at_start=True)
    drawn, gathered, big, out = (b.storage(n * U) for n in (1, 1, 2, 1))
    b.op("aten.bernoulli.p", reads=[x], creates=[drawn], random=True, cost_ns=10)
    b.op("c10d.allgather", reads=[x], creates=[gathered], peers=2, cost_ns=10)
    b.op("aten.relu.default", reads=[x], creates=[big], cost_ns=10)
    b.free(big)
    b.op("aten.add.Tensor", reads=[drawn, gathered], creates=[out], cost_ns=10)
    for s in (drawn, gathered, out):
        b.free(s)
    trace = b.build({"model": "kept"})
    how: dict[str, Any] = {"steps": 1, "random": "keep"}
    assert replay(trace, "coop", 4 * U, **how).header["outcome"] == "oom"
    schedule = replay(trace, "coop:lose=either", 4 * U, link=LINK, **how)
    assert (schedule.header["outcome"], schedule.header["recomputes"], schedule.header["fetches"]) == ("ok", 0, 1)
    assert validate(schedule, trace) == []


def test_without_offload_nothing_is_said_of_it() -> None:
    header = replay(three(), "coop", 5 * U, steps=1, link="pcie3-x8", host_memory="1GiB").header
    assert not {"link", "stall_ns", "host_peak_bytes"} & header.keys()
    assert not {"lose", "offload_state"} & header["choices"].keys()


@pytest.mark.parametrize(
    ("spec", "how", "says"),
    [
        ("foresight:lose=offload", {}, "a plan that offloads also recomputes"),
        ("coop:offload_state=yes", {}, "offload_state=yes needs lose=offload or lose=either"),
        ("coop:lose=either", {"cost_model": "unit"}, "lose=either compares times"),
        ("coop:lose=either", {"link": "pcie4"}, "unknown link 'pcie4'"),
        ("coop:lose=either", {"host_memory": -1}, "not a number of bytes"),
        ("coop:lose=either", {"host_bandwidth": 0.0}, "not a number of GB/s"),
        ("coop:lose=either", {"link": LINK, "host_bandwidth": 20.0}, "a link of your own"),
    ],
)
def test_bad_input(spec: str, how: dict[str, Any], says: str) -> None:
    with pytest.raises(CoopsimError, match=says):
        replay(three(), spec, 4 * U, **how)


Rows = list[tuple[int, ...]]


def without(rows: Rows, action: Action, storage: int) -> Rows:
    """The rows without the first such one."""
    at = next(i for i, row in enumerate(rows) if row[0] == action and row[3] == storage)
    return rows[:at] + rows[at + 1 :]


def after(rows: Rows, action: Action, storage: int, *new: Action) -> Rows:
    """The rows with others after the first such one, about the same value at the same time."""
    at = next(i for i, row in enumerate(rows) if row[0] == action and row[3] == storage)
    return rows[: at + 1] + [(int(a), *rows[at][1:]) for a in new] + rows[at + 1 :]


OFF, IN, GONE = Action.OFFLOAD, Action.FETCH, Action.DISCARD
PLANTED: list[tuple[str, Callable[[Rows], Rows], dict[str, Any], Reason]] = [
    ("fetched from nowhere", lambda r: without(r, OFF, 2), {}, Reason.NOT_ON_HOST),
    ("discarded twice", lambda r: after(r, GONE, 2, GONE), {}, Reason.NOT_ON_HOST),
    ("offloaded twice", lambda r: after(r, OFF, 2, OFF), {}, Reason.COPIED_TWICE),
    ("fetched too early", lambda r: after(r, OFF, 2, Action.EVICT, Action.ALLOC, IN), {}, Reason.HALF_COPIED),
    ("evicted too early", lambda r: after(r, OFF, 2, Action.EVICT), {}, Reason.WRONG_TIME),
    ("not waited for", lambda r: [*r[:26], (*r[26][:7], 58, 0), *r[27:]], {}, Reason.WRONG_TIME),
    ("an old version", lambda r: after(without(r, GONE, 1), Action.MOVE, 1, *STALE), {}, Reason.STALE_COPY),
    ("state without the switch", lambda r: r, {"choices": {}}, Reason.NOT_OFFLOADABLE),
    ("beyond the host's memory", lambda r: r, {"host_memory_bytes": U}, Reason.OVER_HOST_MEMORY),
    ("a weight's only copy", lambda r: after(r, Action.EVICT, 1, GONE), {}, Reason.ONLY_COPY),
    ("left on the host", lambda r: without(r, GONE, 2), {}, Reason.LEAK),
    ("fetched over what is there", lambda r: after(r, IN, 2, IN), {}, Reason.ALLOCATED_TWICE),
    ("offloaded half made", lambda r: after(r, Action.ALLOC, 2, OFF), {}, Reason.HALF_MADE),
    ("not handed on", lambda r: without(r, OFF, 0), {}, Reason.NOT_HANDED_ON),
]
STALE = (Action.EVICT, Action.ALLOC, IN)


def test_every_reason_about_copies_is_planted() -> None:
    about = {Reason.COPIED_TWICE, Reason.NOT_ON_HOST, Reason.STALE_COPY, Reason.HALF_COPIED}
    about |= {Reason.NOT_OFFLOADABLE, Reason.OVER_HOST_MEMORY, Reason.ONLY_COPY}
    assert about <= {reason for *_, reason in PLANTED}


@pytest.mark.parametrize(("plant", "header", "reason"), [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_planted(plant: Callable[[Rows], Rows], header: dict[str, Any], reason: Reason) -> None:
    sound = both("swap-lru:offload_state=yes", 3, steps=2)
    found = validate(of_rows(plant(sound.rows()), three(), **{**sound.header, **header}), three())
    assert reason in [fault.reason for fault in found], found


def test_copies_need_a_link() -> None:
    sound = both("swap-lru", 4)
    header = {key: value for key, value in sound.header.items() if key != "link"}
    found = validate(of_rows(sound.rows(), three(), **header), three())
    assert Reason.BAD_HEADER in [fault.reason for fault in found]
