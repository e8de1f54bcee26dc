"""`planned:release`: the k-th request is the k-th planned one, the rest falls back, experts apart."""

import itertools
import random

import pytest

from coopsim.base.types import MIB, Phase
from coopsim.simulate.allocators.serving import release
from coopsim.simulate.allocators.serving.layout import Place
from coopsim.simulate.allocators.serving.plain import BlockInUse, Segments
from coopsim.simulate.allocators.serving.release import Inside, Released, ReleaseSettings, run
from coopsim.simulate.allocators.serving.result import ServingMeter, ServingOutOfMemory
from coopsim.trace import Trace, TraceBuilder, load
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace
from tests.conftest import ROOT


def trace(*steps: tuple[int, ...], tiny: int = 0) -> Trace:
    """In each step as many ops as there are sizes, in MiB; each output lives until the step ends."""
    b = TraceBuilder()
    b.storage(10 * MIB, "parameter", alive_at_start=True)
    for k, sizes in enumerate(steps):
        if k:
            b.next_step()
        made = []
        for n in sizes:
            made.append(b.storage(n * MIB))
            b.op("aten.mm.default", creates=[made[-1]], temporaries=[8] * tiny)
        for storage in made:
            b.free(storage)
    return b.build({})


def counts(requests: Requests, settings: ReleaseSettings | None = None) -> dict[str, int]:
    details = run(requests, settings).details
    return {key: details[key] for key in ("planned", "mismatches", "occupied", "reused", "fallback")}


def test_steps_that_repeat_take_the_pool_alone() -> None:
    found = run(of_trace(trace((3, 5, 4)), iterations=5))
    assert counts(of_trace(trace((3, 5, 4)), iterations=5)) == {
        "planned": 1 + 15,
        "mismatches": 0,
        "occupied": 0,
        "reused": 0,
        "fallback": 0,
    }
    assert (found.peak_reserved, found.device_allocs) == (22 * MIB, 1)


def test_one_request_more_and_nothing_is_as_planned_again() -> None:
    """The third step makes one more, first: the fourth, which is as planned, is taken for what follows the planned."""
    found = counts(of_trace(trace((3, 5, 4), (3, 5, 4), (7, 3, 5, 4), (3, 5, 4))))
    assert found["mismatches"] == 7
    assert found["fallback"] == 7
    assert found["planned"] == 1 + 6


def test_a_request_of_another_size_alone_falls_back() -> None:
    found = counts(of_trace(trace((3, 5, 4), (3, 5, 4), (3, 6, 4))))
    assert (found["planned"], found["mismatches"], found["fallback"]) == (1 + 8, 1, 1)


def test_one_step_is_never_repeated() -> None:
    b = of_trace(trace((3, 5)))
    allocator = Released(b, ReleaseSettings())
    for number in range(3):
        assert isinstance(allocator.take(number, 0, 0, 0), Place)
    assert isinstance(allocator.take(1, 0, 1, 0), BlockInUse)


def test_a_place_that_is_still_in_use() -> None:
    """What the second step makes stays, and the third would have its place."""
    b = TraceBuilder()
    for k in range(3):
        if k:
            b.next_step()
        b.op("aten.mm.default", creates=[b.storage(3 * MIB)])
    found = counts(of_trace(b.build({})))
    assert (found["planned"], found["mismatches"], found["occupied"], found["fallback"]) == (2, 0, 1, 1)


def test_small_requests_have_slots_of_their_own() -> None:
    requests = of_trace(trace((3, 5), tiny=2), iterations=2)
    allocator = Released(requests, ReleaseSettings())
    assert allocator.slots.total == 4  # two are alive at once
    for _ in range(5):
        allocator.slots.take()
    assert allocator.slots.total == 8
    assert run(requests).peak_reserved == (18 + 2) * MIB
    assert run(requests).details["planned"] == 1 + 4


def test_large_blocks_of_the_fallback_are_whole() -> None:
    """PyTorch's rule of max_split_size, at 128 MiB."""
    pool = Segments(ServingMeter(), 512, 128 * MIB)
    large = pool.make(150 * MIB, 150 * MIB)
    pool.give_back(large)
    assert pool.take(100 * MIB) is None  # it would have to be cut
    assert pool.take(130 * MIB) is None  # 20 MiB less
    found = pool.take(131 * MIB)
    assert found is not None
    assert found.bytes == 150 * MIB
    pool.give_back(found)
    pool.max_split = None
    assert pool.take(100 * MIB) is not None


def test_a_full_device() -> None:
    requests = of_trace(trace((3, 5, 4), (3, 5, 4), (7, 3, 5, 4)))
    assert run(requests, ReleaseSettings(memory=42 * MIB)).peak_reserved == 42 * MIB
    with pytest.raises(ServingOutOfMemory):
        run(requests, ReleaseSettings(memory=41 * MIB))
    with pytest.raises(ServingOutOfMemory):
        run(requests, ReleaseSettings(memory=20 * MIB))


def mixture(*loads: int) -> Trace:
    """A step per load: a dense layer, an expert that gets so many MiB, and the rest of its layer; then backward."""
    b = TraceBuilder()
    for k, load_ in enumerate(loads):
        if k:
            b.next_step()
        x, routes, y, z, g = (b.storage(n * MIB) for n in (4, 1, load_, load_, load_))
        b.op("aten.mm.default", creates=[x], module="layers.0")
        b.op("aten.mm.default", creates=[routes], module="layers.1.mlp.router")
        b.op("aten.mm.default", creates=[y], module="layers.1.mlp.experts.3.up")
        b.op("aten.mm.default", creates=[z], module="layers.1.mlp")
        b.op("aten.mm.default", creates=[g], module="layers.1.mlp", phase=Phase.BACKWARD)
        for storage in (z, y, g, routes, x):
            b.free(storage)
    return b.build({})


def test_layers_of_experts() -> None:
    requests = of_trace(mixture(6))
    expert, rest = Inside("layers.1.mlp", expert=True), Inside("layers.1.mlp", expert=False)
    assert release.inside(requests) == [None, None, expert, rest, rest]
    assert set(release.lifespans(requests, release.inside(requests))) == {(0, expert), (0, rest)}


def test_experts_are_not_planned() -> None:
    requests = of_trace(mixture(6, 6, 9))
    found = counts(requests)
    assert (found["planned"], found["mismatches"], found["reused"], found["fallback"]) == (6, 0, 0, 9)


def test_experts_reuse_what_the_plan_leaves_free() -> None:
    """With a wide op at the end of each step, the pool has room for the experts before it."""
    b = TraceBuilder()
    for k in range(3):
        if k:
            b.next_step()
        x, y, wide = b.storage(4 * MIB), b.storage((6 + k) * MIB), b.storage(40 * MIB)
        b.op("aten.mm.default", creates=[x], module="layers.0")
        b.op("aten.mm.default", creates=[y], module="layers.1.mlp.experts.3.up")
        b.free(y)
        b.op("aten.mm.default", creates=[wide], module="head")
        b.free(wide)
        b.free(x)
    requests = of_trace(b.build({}))
    assert counts(requests)["fallback"] == 3
    found = counts(requests, ReleaseSettings(reuse=True))
    assert (found["reused"], found["occupied"], found["fallback"]) == (3, 0, 0)


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_handed_out_twice(seed: int, reuse: bool) -> None:
    dice = random.Random(seed)
    requests = of_trace(mixture(*(dice.choice([1, 3, 8, 30]) for _ in range(6))))
    allocator = Released(requests, ReleaseSettings(reuse=reuse))
    held: dict[int, Place | BlockInUse | None] = {}
    for take, number, _, stream, step, phase, _ in requests.memory():
        if take:
            held[number] = allocator.take(number, stream, step, phase)
        else:
            allocator.give_back(held.pop(number))
        places = sorted(place for place in held.values() if isinstance(place, Place))
        assert places == allocator.places.used
        assert all(a.end <= b.address for a, b in itertools.pairwise(places))
        blocks = [(id(h.pool), h.block.address) for h in held.values() if isinstance(h, BlockInUse)]
        assert len(blocks) == len(set(blocks))
    assert allocator.meter.now["allocated"] == 0


def test_recorded_steps_that_differ_fail_for_good() -> None:
    """As many mismatches as STAlloc's program reports for this stream."""
    requests = of_trace(load(ROOT / "traces" / "spos.parquet"), layout=False)
    found = counts(requests)
    assert found["mismatches"] == 1652
    assert run(requests).peak_reserved > 1.5 * requests.peak_bytes(512)
