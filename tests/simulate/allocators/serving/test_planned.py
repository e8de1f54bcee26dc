"""The planned allocator: what was planned goes where it was planned, the rest reuses, borrows or falls back."""

import itertools
import random

import pytest

from coopsim.base.types import Phase
from coopsim.simulate.allocators.serving.layout import LayoutOptions, Lifetime, lay_out
from coopsim.simulate.allocators.serving.plain import BlockInUse
from coopsim.simulate.allocators.serving.planned import Place, PlannedAllocator, run
from coopsim.simulate.allocators.serving.result import ServingOutOfMemory
from coopsim.trace import Trace, TraceBuilder, load
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace
from tests.conftest import ROOT

MIB = 1 << 20


def step(b: TraceBuilder, weight: int, first: int, second: int) -> None:
    """Forward makes two activations and backward frees them; sizes in MiB."""
    x, y = b.storage(first * MIB), b.storage(second * MIB)
    b.op("aten.mm.default", reads=[weight], creates=[x], temporaries=[3 * MIB], module="a")
    b.op("aten.mm.default", reads=[x], creates=[y], module="b")
    g = b.storage(4 * MIB)
    b.op("aten.mm.default", reads=[x, y], creates=[g], phase=Phase.BACKWARD, module="b")
    b.free(y)
    b.free(x)
    b.op("aten.add_.Tensor", reads=[g], mutates=[weight], phase=Phase.OPTIMIZER)
    b.free(g)


def trace(*sizes: tuple[int, int]) -> Trace:
    b = TraceBuilder()
    weight = b.storage(10 * MIB, "parameter", alive_at_start=True)
    for k, (first, second) in enumerate(sizes):
        if k:
            b.next_step()
        step(b, weight, first, second)
    return b.build({})


def serve(requests: Requests, allocator: PlannedAllocator) -> None:
    """Serve all, and look after each request whether two have the same byte of the pool."""
    held: dict[int, Place | BlockInUse] = {}
    now = -1
    for take, item, nbytes, stream, number, phase, site in requests.memory():
        if number > now:
            now = number
            allocator.begin(number)
        if take:
            held[item] = allocator.take(nbytes, phase, site, stream)
        else:
            allocator.give_back(held.pop(item))
        places = sorted(handle for handle in held.values() if isinstance(handle, Place))
        assert places == allocator.used
        assert all(a.end <= b.address for a, b in itertools.pairwise(places))
        assert not places or places[-1].end <= allocator.height
        blocks = [(id(h.pool), h.block.address) for h in held.values() if isinstance(h, BlockInUse)]
        assert len(blocks) == len(set(blocks))


def test_classes() -> None:
    layout = lay_out(of_trace(trace((6, 8))), LayoutOptions())
    assert [str(kind) for kind in layout.lifetime] == ["persistent", "group", "temporary", "group", "group"]
    assert layout.bytes_of(Lifetime.GROUP) == 18 * MIB
    assert layout.plan.height == layout.plan.lower_bound == 28 * MIB
    assert layout.steps == [0, 9]


def test_what_repeats_is_all_planned() -> None:
    found = run(of_trace(trace((6, 8)), iterations=3))
    assert found.details["planned"] == 1 + 3 * 4
    assert (found.details["reused"], found.details["borrowed"], found.details["fallback"]) == (0, 0, 0)
    assert (found.peak_reserved, found.device_allocs, found.reserved_but_unallocated) == (28 * MIB, 1, 0)


def test_smaller_than_planned_takes_the_place_of_its_site() -> None:
    found = run(of_trace(trace((6, 8), (5, 7))))
    assert found.details["planned"] == 1 + 2 * 4
    assert found.device_allocs == 1


def test_what_was_not_planned_reuses_what_the_plan_leaves_free() -> None:
    """An op that the planned step did not have, before its large activation: above the weight and the small one."""
    layout = lay_out(of_trace(trace((6, 8))), LayoutOptions())
    allocator = PlannedAllocator(layout)
    allocator.begin(0)
    weight, x = (allocator.take(n * MIB, phase=p, site=s) for n, p, s in ((10, -1, 0), (6, 0, 1)))
    assert isinstance(weight, Place)
    assert isinstance(x, Place)
    assert allocator.count["planned"] == 2
    none = allocator.take(20 * MIB, phase=0, site=99)
    assert isinstance(none, BlockInUse)
    allocator.begin(0)
    allocator.pending[:] = False
    reused = allocator.take(12 * MIB, phase=0, site=99)
    assert isinstance(reused, Place)
    assert allocator.count["reused"] == 1


def test_larger_than_planned_falls_back() -> None:
    found = run(of_trace(trace((6, 8), (6, 90))))
    assert found.details["fallback"] == 1
    assert found.peak_reserved == (28 + 90) * MIB
    assert found.device_allocs == 2


def test_more_steps_are_planned_if_asked_for() -> None:
    requests = of_trace(trace((6, 8), (6, 90), (1, 1)))
    found = run(requests, LayoutOptions(steps=2))
    assert found.details["planned"] == 1 + 3 * 4  # the third step is smaller than the second
    assert found.peak_reserved == 110 * MIB


def test_a_full_device() -> None:
    requests = of_trace(trace((6, 8), (6, 90)))
    with pytest.raises(ServingOutOfMemory):
        run(requests, LayoutOptions(memory=20 * MIB))
    with pytest.raises(ServingOutOfMemory):
        run(requests, LayoutOptions(memory=100 * MIB))


def test_own_memory_is_lent_only_to_what_is_not_much_smaller() -> None:
    """A request of 2 MiB that lives on would displace one of 100 MiB: the fallback grows instead."""
    b = TraceBuilder()
    small, large = b.storage(1 * MIB), b.storage(100 * MIB)
    b.op("aten.mm.default", creates=[small])
    b.free(small)
    b.op("aten.mm.default", creates=[large])
    b.free(large)
    layout = lay_out(of_trace(b.build({})), LayoutOptions())
    for asked, how in ((2, "fallback"), (30, "borrowed")):
        allocator = PlannedAllocator(layout)
        allocator.begin(0)
        allocator.take(asked * MIB, phase=1, site=99)
        assert {key: n for key, n in allocator.count.items() if n} == {how: 1}


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_handed_out_twice(seed: int) -> None:
    """Steps that differ at random from the planned one."""
    dice = random.Random(seed)
    sizes = [(dice.choice([1, 2, 6, 8]), dice.choice([1, 5, 9, 30])) for _ in range(8)]
    requests = of_trace(trace(*sizes))
    serve(requests, PlannedAllocator(lay_out(requests, LayoutOptions())))


@pytest.mark.parametrize("name", [pytest.param("spos", marks=pytest.mark.slow), "moe"])
def test_recorded_dynamic_traces(name: str) -> None:
    requests = of_trace(load(ROOT / "traces" / f"{name}.parquet"), layout=False)
    layout = lay_out(requests, LayoutOptions())
    assert layout.plan.optimal
    allocator = PlannedAllocator(layout)
    serve(requests, allocator)
    assert allocator.count["reused"] > 0


@pytest.mark.parametrize("name", ["unet", "resnet-50", "inception-v3"])
def test_recorded_static_traces_take_no_more_than_they_must(name: str) -> None:
    requests = of_trace(load(ROOT / "traces" / f"{name}.parquet"), iterations=3, layout=False)
    found = run(requests)
    assert found.details["plan_bytes"] == found.details["plan_bound"] == requests.peak_bytes(512)
    assert found.details["fallback"] == 0
    assert found.reserved_but_unallocated < 0.001
