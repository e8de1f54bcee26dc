"""A part of the report that fails is named, and what was measured is not lost."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from coopsim.run import Report
from coopsim.run.cautions import garbage, split_limit
from tests.live.command import called

FAILS = """
import gc, torch
from coopsim.run.probes import kinds

def fails(*_):
    raise RuntimeError("Cannot access data pointer of Tensor")

kinds.Kinds.at_peak = fails

def cycle(n):
    made = [torch.ones(n, device="cuda")]
    made.append(made)

cycle(1 << 19)
gc.collect()  # which the script asks for
cycle(1 << 18)
gc.set_threshold(10, 1, 1)  # the collector runs by itself, of whatever generation
kept = [[] for _ in range(100)]
x = torch.ones(1 << 20, device="cuda")
del x
gc.set_threshold(700, 10, 10)

weights = [torch.ones(8, device="cuda", requires_grad=True) for _ in range(4)]
optimizer = torch.optim.SGD(weights)
seen = []
for _ in range(9):
    sum(weight.sum() for weight in weights).backward()
    optimizer.step()
    optimizer.zero_grad()
    seen.append(sum(type(one).__name__ == "Storage" for one in gc.get_objects()))
assert seen[-1] == seen[-5], seen  # more of them would have the collector run sooner than without coopsim
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


@pytest.mark.parametrize(("more", "unallocated"), [("", 0.0), (",max_split_size_mb:128", 0.49)])
@pytest.mark.usefixtures("phantom_gpu")
def test_a_limit_to_splitting_defeats_expandable_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, unallocated: float
) -> None:
    """What a large tensor leaves serves none below the limit, though it fits four of them."""
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", f"expandable_segments:True{more}")
    script = tmp_path / "train.py"
    make = 'torch.empty({} << 20, dtype=torch.uint8, device="cuda")'.format
    rows = f"x, y = {make(400)}, {make(20)}", "del x", f"z = [{make(100)} for _ in range(4)]"
    script.write_text("\n".join(("import torch", *rows)))
    report = json.loads(called("phantom", "run", "--json", "--", "python", str(script)).stdout)
    assert report["reserved_but_unallocated"] == pytest.approx(unallocated, abs=0.02)
    said = list(split_limit(SimpleNamespace(**report)))
    assert [("max_split_size_mb:128" in line) for line in said] == [True] * bool(more)


ADADELTA = """
import torch
model = torch.nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.Adadelta(model.parameters())
for _ in range(2):
    model(torch.randn(8, 4096, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("phantom_gpu")
def test_what_an_optimizer_makes_in_its_steps_is_a_kind(tmp_path: Path) -> None:
    """Two copies of the parameters, a third of the peak."""
    script = tmp_path / "train.py"
    script.write_text(ADADELTA)
    kinds = json.loads(called("phantom", "run", "--json", "--", "python", str(script)).stdout)["peak_by_kind"]
    assert kinds["optimizer_temporaries"] == pytest.approx(2 * kinds["parameters"], rel=0.01)
    assert kinds["other"] < 0.01 * sum(kinds.values())
