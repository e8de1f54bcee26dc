"""The allocator of examples/allocators, which docs/extend.md starts from."""

import runpy

from coopsim.base.types import GRANULE
from coopsim.trace.requests_of import of_trace
from coopsim.trace.synth import make
from tests.conftest import ROOT


def test_the_example_serves_requests() -> None:
    requests = of_trace(make("synth:unet:4"), iterations=2)
    found = runpy.run_path(str(ROOT / "examples" / "allocators" / "by_size.py"))["run"](requests)
    assert found.peak_reserved >= requests.peak_bytes(GRANULE) == found.peak_allocated
    assert found.peak_requested == requests.peak_bytes()
