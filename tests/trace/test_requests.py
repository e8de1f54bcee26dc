"""What a trace asks for, in order, over several iterations; and what allocators that serve it say of themselves."""

import numpy as np
import pytest

from coopsim.base.types import Phase
from coopsim.simulate.allocators.serving import SERVING, Result
from coopsim.trace import Trace, TraceBuilder, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.requests import PHASES, Requests
from coopsim.trace.requests_of import of_trace
from tests.conftest import ROOT


def written(requests: Requests) -> list[str]:
    """`+3:512` takes 512 bytes as item 3, `-3` gives them back."""
    return [f"+{item}:{nbytes}" if take else f"-{item}" for take, item, nbytes, *_ in requests.memory()]


def small() -> Trace:
    b = TraceBuilder()
    w, x = b.storage(100, "parameter", alive_at_start=True), b.storage(50, "input", alive_at_start=True)
    y, z, nothing = b.storage(20), b.storage(100, "parameter"), b.storage(0)
    b.op("aten.mm.default", reads=[w, x], creates=[y, nothing], temporaries=[7], requests=[7, -1, -2, -3])
    b.free(x)
    b.op("aten.neg.default", reads=[y], creates=[z], temporaries=[8], phase=Phase.OPTIMIZER, stream=3)
    b.free(y)
    b.free(nothing)
    b.free(w)
    b.becomes(z, w)
    return b.build({})


def test_order_iterations_and_heirs() -> None:
    once = ["+0:100", "+1:50", "+2:7", "+3:20", "-2", "-1", "+4:100", "+5:8", "-5", "-3", "-0"]
    assert written(of_trace(small())) == once
    # x is asked for again; z is w now
    again = ["+6:50", "+7:7", "+8:20", "-7", "-6", "+9:100", "+10:8", "-10", "-8", "-4"]
    requests = of_trace(small(), iterations=2)
    assert written(requests) == once + again
    assert requests.step.tolist() == [0] * 11 + [1] * 10
    assert requests.source.tolist()[:7] == [-1, -1, 0, 0, 0, 0, 1]
    assert [PHASES[p] if p >= 0 else "" for p in requests.phase[[0, 2, 6]]] == ["", "forward", "optimizer"]
    assert [stream for take, _, _, stream, *_ in requests.memory() if take][3:6] == [0, 3, 3]
    assert requests.peak_bytes() == 228
    assert requests.peak_bytes(512) == 4 * 512


def test_the_same_place_of_the_program_has_the_same_site() -> None:
    requests = of_trace(small(), iterations=2)
    taken = [(item, site) for take, item, *_, site in requests.memory() if take]
    sites = dict(taken)
    assert sites[2] == sites[7]
    assert sites[3] == sites[8] != sites[2]
    assert sites[0] == sites[1] == sites[6]


@pytest.mark.parametrize("name", ["unet", "spos", "moe"])
def test_recorded_traces(name: str) -> None:
    trace = load(ROOT / "traces" / f"{name}.parquet")
    requests = of_trace(trace, iterations=2, layout=False)
    nbytes, start, end = requests.lifetimes()
    assert (end > start).all()
    assert len(nbytes) == len(requests.labels)
    assert 0.95 * peak_bytes(trace, 512) < requests.peak_bytes(512) <= peak_bytes(trace, 512)
    half = of_trace(trace, layout=False)
    assert np.array_equal(half.rows, requests.rows[: len(half)])


def test_no_requests() -> None:
    b = TraceBuilder()
    b.op("aten.neg.default")
    requests = of_trace(b.build({}))
    assert (len(requests), requests.peak_bytes()) == (0, 0)
    for run in SERVING.values():
        found = run(requests)
        assert (found.peak_reserved, found.reserved_but_unallocated, found.reserved_but_inactive) == (0, 0, 0)


@pytest.mark.parametrize("name", sorted(SERVING))
@pytest.mark.parametrize("trace", ["unet", "moe"])
def test_every_allocator(name: str, trace: str) -> None:
    """What must hold of any: no less reserved than handed out, no less handed out than asked for; always the same."""
    requests = of_trace(load(ROOT / "traces" / f"{trace}.parquet"), layout=False)
    found = SERVING[name](requests)
    assert found.allocator == name
    assert requests.peak_bytes() == found.peak_requested
    assert requests.peak_bytes(512) <= found.peak_allocated <= found.peak_active <= found.peak_reserved
    assert 0 <= found.reserved_but_inactive <= found.reserved_but_unallocated < 0.3
    assert SERVING[name](requests) == found


def test_definitions_of_fragmentation() -> None:
    found = Result("x", 50, 60, 75, 100, 1, 0)
    assert found.reserved_but_unallocated == pytest.approx(0.4)
    assert found.reserved_but_inactive == pytest.approx(0.25)
