"""Without a C++ compiler the recorder is a dispatch mode, which takes memory: what fits is judged by unwatched runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.fitting.changes import Changes
from coopsim.fitting.searching import unwatched
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Script
from tests.record.observe.runs import KINDS, PLAIN, plain

pytestmark = pytest.mark.usefixtures("phantom_gpu")

#: The gradient of gather is made in place, but not while a dispatch mode is active.
SCRIPT = """
import torch
model = torch.nn.Linear(64, 8192).cuda()
optimizer = torch.optim.SGD(model.parameters())
labels = torch.randint(0, 10, (1024, 1)).cuda()
for _ in range(2):
    model(torch.randn(1024, 64, device="cuda")).gather(1, labels).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
def test_what_fits_is_judged_by_unwatched_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    said: list[str] = []
    trials = Trials(Script((str(script),), quiet=True), Runs(said.append))
    first = trials.survey(tmp_path / "requests.npy").report
    [line] = [line for line in said if "compiler" in line]
    assert "no C++ compiler (/nowhere/c++): what fits is judged by runs that nothing watches" in line
    plain("-c", PLAIN, tmp_path / "peaks.json", script)
    peaks = json.loads((tmp_path / "peaks.json").read_text())
    assert [getattr(first, f"peak_{kind}_bytes") for kind in KINDS] == peaks
    again = trials.run("as it is", Changes(), memory_bytes=first.peak_device_bytes)
    assert again is not None
    assert (again.outcome, again.peak_reserved_bytes, again.watched_by_mode) == ("ok", peaks[2], False)
    assert again.plugin["step_ns"] > 0
    assert unwatched.differs(first, first) == ""
    for other in ({"needs_data": [{}]}, {"loops_ended": [{}]}):  # which only a watched run is told
        assert "depend on data" in unwatched.differs(replace(first, **other), first)
    assert unwatched.differs(replace(first, steps=1), first) == "unwatched it takes 2 of 1 steps"
