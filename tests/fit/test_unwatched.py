"""Without a C++ compiler the recorder is a dispatch mode, which takes memory: what fits is judged by unwatched runs."""

import json
from pathlib import Path

import pytest

from coopsim.fit.changes import Changes
from coopsim.fit.searching.progress import Runs
from coopsim.fit.searching.trials import Trials
from coopsim.script import Script
from tests.observe.runs import KINDS, PLAIN, plain

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
#: The loop ends when a value on the device says so, which a watched run is told.
WAITS = """
while (torch.zeros(1, device="cuda") + torch.rand(1, device="cuda")).item() <= 0:
    pass
"""


@pytest.mark.parametrize(
    "text",
    [SCRIPT, pytest.param(SCRIPT + WAITS, marks=pytest.mark.slow)],
    ids=["unwatched", "waits for data"],
)
def test_what_fits_is_judged_by_unwatched_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    script = tmp_path / "train.py"
    script.write_text(text)
    said: list[str] = []
    trials = Trials(Script((str(script),), quiet=True), Runs(said.append))
    first = trials.survey(tmp_path / "requests.npy").report
    [line] = [line for line in said if "compiler" in line]
    if text != SCRIPT:
        assert "no C++ compiler (/nowhere/c++): runs are watched by a dispatch mode" in line
        assert first.watched_by_mode
        assert trials.script.watched
        return
    assert "no C++ compiler (/nowhere/c++): what fits is judged by runs that nothing watches" in line
    plain("-c", PLAIN, tmp_path / "peaks.json", script)
    peaks = json.loads((tmp_path / "peaks.json").read_text())
    assert [getattr(first, f"peak_{kind}_bytes") for kind in KINDS] == peaks
    again = trials.run("as it is", Changes(), memory_bytes=first.peak_device_bytes)
    assert again is not None
    assert (again.outcome, again.peak_reserved_bytes, again.watched_by_mode) == ("ok", peaks[2], False)
    assert again.plugin["step_ns"] > 0
