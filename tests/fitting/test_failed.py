"""A run that fails is never read as a fit, however the script ends."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.fitting import Search
from coopsim.fitting.changes import Changes
from coopsim.fitting.searching.masks import lower_needs
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Script
from coopsim.run.records import InputSizes, SizeFromData
from coopsim.run.report import Report

#: Squares of all differences of n outputs with n targets, as one writes it by mistake.
HUGE = """
import torch
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def train(n):
    for _ in range(2):
        x, y = torch.randn(n, 8, device="cuda"), torch.randn(n, device="cuda")
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
"""
#: In a process of its own, which may import the script.
CHILD = """
import multiprocessing
def work():
    import torch
    {}
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
"""
THREAD = """
import threading, torch
def work():
    {}
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
ERROR = 'torch.nn.Linear(8, 1).cuda()(torch.zeros(4, 9, device="cuda"))'
TOO_MUCH = 'torch.zeros(1 << 44, device="cuda")'
#: What a script does, and what `fit` says of it.
FAILS = {
    "huge": (f"{HUGE}train(4_000_000)", "asked for 58.21 TiB at train.py:8"),
    "caught": (f"{HUGE}\ntry:\n    train(4_000_000)\nexcept RuntimeError: pass", "asked for 58.21 TiB at train.py:8"),
    "exit 0": (
        f"{HUGE}\ntry:\n    train(4_000_000)\nfinally: raise SystemExit(0)",
        "asked for 58.21 TiB at train.py:8",
    ),
    "child": (CHILD.format(TOO_MUCH), "asked for 64 TiB at train.py:5"),
    "child, for another reason": (CHILD.format(ERROR), "train.py:5: RuntimeError: mat1 and mat2"),
    "thread": (THREAD.format(TOO_MUCH), "asked for 64 TiB at train.py:4"),
    "thread, for another reason": (THREAD.format(ERROR), "train.py:4: RuntimeError: mat1 and mat2"),
}


def fit(*words: object) -> subprocess.CompletedProcess[str]:
    """As a user calls it."""
    command = [sys.executable, "-m", "coopsim", "fit", "--gpu", "rtx-3060", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize(
    "name", [name if name == "huge" else pytest.param(name, marks=pytest.mark.slow) for name in FAILS]
)
def test_a_script_that_fails_does_not_fit(name: str, tmp_path: Path) -> None:
    text, said = FAILS[name]
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    done = fit("--", "python", tmp_path / "train.py")
    if "another reason" in name:
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.splitlines()[-1]
        return
    assert done.returncode == 3
    assert done.stdout.startswith("Does not fit: ")
    assert said in done.stdout.splitlines()[0]
    assert "No remedy was tried, as no card has so much" in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_the_largest_batch_of_a_script_that_fits_no_card(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import sys{HUGE}train(int(sys.argv[1]))", encoding="utf-8")
    done = fit("--", "python", tmp_path / "train.py", "{1000000}")
    assert done.returncode == 3
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("Does not fit: asked for 3.638 TiB at train.py:8")
    assert second.startswith("Largest batch: ")
    largest = int(second.split()[2])
    assert 15_000 < largest < 63_000  # 4 bytes of a square a few times over in 11.6 GiB


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_a_script_that_tries_batches_until_one_trains(tmp_path: Path) -> None:
    """Its size is the card's: it is run on that."""
    loop = "\nn = 4_000_000\nwhile True:\n    try:\n        train(n)\n        break\n    except RuntimeError: n //= 2"
    (tmp_path / "train.py").write_text(HUGE + loop, encoding="utf-8")
    done = fit("--json", "--", "python", tmp_path / "train.py")
    found = json.loads(done.stdout)
    assert (done.returncode, found["fits"]) == (0, True)
    assert found["needs_bytes"] <= found["memory_bytes"]


def report(*, outcome: str = "ok", steps: int = 4, ooms: int = 0) -> Report:
    """Of a run."""
    some: Any = dict.fromkeys(
        [f for f in Report.__dataclass_fields__ if f.endswith("_bytes") and f not in ("managed_bytes",)], 0
    )
    some |= {"command": [], "gpu": "t4", "retries": 0, "processes": 1, "versions": {}}
    return Report(**some, outcome=outcome, steps=steps, ooms=ooms)


def judge(ran: Report, changes: Changes, *, command: str = "a.py", first: Report | None = None) -> str:
    """What is said of a trial after a first run of four steps."""
    tried = Trials(Script(("a.py",), card="t4"), Runs(lambda _: None), first=first or report())
    try:
        return tried.judged(ran, changes, (command,)).outcome
    except CoopsimError as e:
        return str(e)


def test_a_trial_that_runs_out_of_memory_is_no_fit_though_the_script_goes_on() -> None:
    assert judge(report(ooms=1), Changes()) == "oom"
    assert judge(report(ooms=1), Changes(), first=report(ooms=1)) == "ok"
    assert judge(report(), Changes()) == "ok"


@pytest.mark.parametrize(
    ("steps", "changes", "command", "outcome"),
    [
        (0, Changes(), "a.py", "it ends well, but after 0 of 4 optimizer steps"),
        (1, Changes(), "a.py", "it ends well, but after 1 of 4 optimizer steps"),
        (2, Changes(), "a.py", "ok"),
        (0, Changes(accumulate=2), "b.py", "it ends well, but after 0 of 4 optimizer steps"),
        (1, Changes(accumulate=2), "b.py", "ok"),
        (1, Changes(cards=4), "a.py", "ok"),
    ],
)
def test_a_trial_that_hardly_trains_is_no_fit(steps: int, changes: Changes, command: str, outcome: str) -> None:
    assert judge(report(steps=steps), changes, command=command) == outcome


def test_cautions_are_said_once_and_of_the_card() -> None:
    """Not of the memory that the first run has."""
    first = replace(report(), benchmarked=True, input_sizes=InputSizes(3, [8, 512]), memory_bytes=1 << 40)
    survey: Any = SimpleNamespace(report=first)
    search = Search(Script(("a.py",), card="t4", memory_bytes=5 << 30))
    search._note_basis(survey)
    said = "\n".join(search._trials.notes)
    assert said.count("inputs of 3 sizes, up to 8 x 512") == 1
    assert "all of its 5 GiB" in said
    assert "TiB" not in said


@pytest.mark.parametrize(("left_out", "said"), [(0, 0), (20 << 20, 0), (50 << 20, 1)])
def test_workspaces_that_are_not_counted_are_said_if_large(left_out: int, said: int) -> None:
    first = replace(report(), left_out_workspace_bytes=left_out, peak_reserved_bytes=4 << 30)
    assert "\n".join(first.cautions).count("by the rules of an H100 the largest takes") == said


def test_masks_are_not_looked_at_where_they_change_no_verdict() -> None:
    """Parameters and the optimizer's state alone do not fit: no run is spent on masks that keep nothing."""
    need = SizeFromData("aten.nonzero", "a.py:1", 1, "masks")
    held = {"parameters": 4 << 30, "optimizer_state": 2 << 30, "activations": 9 << 30}
    first = replace(report(), needs_data=[need], peak_by_kind=held)
    assert first.depends_on_masks
    tried = Trials(Script(("a.py",), card="t4", memory_bytes=5 << 30), Runs(lambda _: None), first=first)
    assert lower_needs(tried, Path("requests.npy")) is None
    assert tried.notes == ["if masks keep nothing, it does not fit either: 6 GiB do not depend on them"]
    assert tried.runs.count == 0
