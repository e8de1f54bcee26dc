"""PyTorch's allocator over a stream is PyTorch's allocator."""

import pytest

from coopsim.allocators.streams import OutOfMemory, caching, requests_of
from coopsim.requests import of_trace
from coopsim.requests.trial import attempt
from coopsim.trace import Trace
from coopsim.trace.synth import make


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "roundup_power2_divisions:4"])
def test_same_as_request_by_request(conf: str) -> None:
    trace = make("synth:unet:4")
    found = caching.run(requests_of(trace, 2), caching.Options(conf=conf))
    alone = attempt(of_trace(trace, rounds=2), "2.15.0", conf)
    assert (found.peak_reserved, found.peak_allocated) == (alone.peak_reserved_bytes, alone.peak_allocated_bytes)
    assert found.peak_reserved >= found.peak_allocated >= found.peak_requested > 0


def test_out_of_memory(bert: Trace) -> None:
    with pytest.raises(OutOfMemory):
        caching.run(requests_of(bert), caching.Options(memory=20 << 30))
