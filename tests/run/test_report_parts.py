"""A part of the report that fails is named, and what was measured is not lost."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from coopsim.run import Report
from coopsim.run.script_figures import garbage
from tests.live.command import called

FAILS = """
import gc, torch
from coopsim.run.probes import kinds

def fails(*_):
    raise RuntimeError("Cannot access data pointer of Tensor")

kinds.Kinds.at_peak = fails
cycle = [torch.ones(1 << 18, device="cuda")]
cycle.append(cycle)
del cycle
gc.collect(0)  # as the collector does by itself from time to time
x = torch.ones(1 << 20, device="cuda")
"""


@pytest.mark.usefixtures("phantom_gpu")
def test_a_part_that_fails_loses_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILS)
    done = called("phantom", "run", "--json", "--", "python", str(script))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["peak_requested_bytes"] == 4 << 20
    assert report["garbage_bytes"] == 1 << 20
    assert "garbage collector freed 1 MiB at once" in "\n".join(garbage(SimpleNamespace(**report)))
    assert report["lost"] == {"peak_by_kind": "RuntimeError: Cannot access data pointer of Tensor"}


def test_blocks_that_other_streams_hold_back_are_shown() -> None:
    numbers = dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes"), 1 << 30)
    report = Report(
        command=["python", "train.py"], gpu="rtx-3060", memory_bytes=4 << 30, outcome="ok", steps=3, **numbers,
        peak_device_bytes=2 << 30, processes=1, peak_active_bytes=3 << 29,
    )  # fmt: skip
    assert "peak active     1.5 GiB, freed blocks that another stream still uses (record_stream) included" in (
        str(report).splitlines()
    )
    assert "peak active" not in str(replace(report, peak_active_bytes=1 << 30))
