"""PyTorch's allocator over a stream is PyTorch's allocator."""

import json
from pathlib import Path
from typing import Any

import pytest

from coopsim.simulate.allocators.caching.trial import attempt
from coopsim.simulate.allocators.serving import SERVING, ServingOutOfMemory, caching
from coopsim.trace import Trace
from coopsim.trace.requests_of import of_trace
from coopsim.trace.synth import make


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "roundup_power2_divisions:4"])
def test_same_as_request_by_request(conf: str) -> None:
    trace = make("synth:unet:4")
    found = caching.run(of_trace(trace, iterations=2), caching.CachingOptions(conf=conf))
    alone = attempt(of_trace(trace, iterations=2), "2.15.0", conf)
    assert (found.peak_reserved, found.peak_allocated) == (alone.peak_reserved_bytes, alone.peak_allocated_bytes)
    assert found.peak_reserved >= found.peak_allocated >= found.peak_requested > 0


def test_out_of_memory(bert: Trace) -> None:
    with pytest.raises(ServingOutOfMemory):
        caching.run(of_trace(bert, layout=False), caching.CachingOptions(memory=20 << 30))


def test_command_line_compares(coopsim: Any) -> None:
    code, out, err = coopsim("requests", "synth:unet:4", "--steps", "2", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert [r["allocator"] for r in said["allocators"]] == list(SERVING)
    assert all(r["peak_reserved_bytes"] >= said["lower_bound_bytes"] > 0 for r in said["allocators"])
    code, out, _ = coopsim("requests", "synth:unet:4")
    assert (code, len(out.splitlines())) == (0, 3 + len(SERVING))


def test_command_line_refuses(coopsim: Any, tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    case.write_text('{"conf": "", "total": 1073741824, "ops": ["a 1 1 0"]}')
    code, out, err = coopsim("requests", case)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "case.json" in err
    assert coopsim("requests", tmp_path / "none").code == 2
