"""A part of the report that fails is named, and what was measured is not lost."""

import json
from pathlib import Path

import pytest

from tests.live.command import called

FAILS = """
import torch
from coopsim.script.watching import kinds

def fails(*_):
    raise RuntimeError("Cannot access data pointer of Tensor")

kinds.Kinds.at_peak = fails
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
    assert report["lost"] == {"peak_by_kind": "RuntimeError: Cannot access data pointer of Tensor"}
