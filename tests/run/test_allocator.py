"""Settings of PyTorch's allocator that a script makes, and optimizers that are half ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from .command import phantom_run, report_of

pytestmark = pytest.mark.usefixtures("phantom_gpu")
MIB = 1 << 20

LIMITED = """
import torch
torch.cuda.set_per_process_memory_fraction({fraction})
model = torch.nn.Sequential(*[l for _ in range(6) for l in (torch.nn.Linear(512, 512), torch.nn.GELU())]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(8192, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize("fraction", ["0.02", "0.25"])
def test_limit_of_the_script_is_named_and_smallest_memory_allows_for_it(fraction: str, tmp_path: Path) -> None:
    """A card is as large as the limit's part of it must be, to 2 MiB; with a card of that size it does train."""
    script = tmp_path / "limited.py"
    script.write_text(LIMITED.format(fraction=fraction))
    found = report_of("--gpu", "rtx-3060", "--fit", "--", script)
    part = float(fraction)
    assert found["memory_fraction"] == part
    assert found["outcome"] == ("oom" if part < 0.03 else "ok")
    if found["outcome"] == "oom":
        assert found["out_of_memory"]["memory_fraction"] == part
        assert found["out_of_memory"]["device_free_bytes"] > 20 * found["out_of_memory"]["requested_bytes"]
    smallest = found["smallest_memory_bytes"]
    above = report_of("--gpu", "rtx-3060", "--memory", f"{smallest}B", "--", script)
    below = report_of("--gpu", "rtx-3060", "--memory", f"{smallest - 2 * MIB}B", "--", script)
    assert (above["outcome"], below["outcome"]) == ("ok", "oom")
    assert above["peak_reserved_bytes"] <= part * smallest


def test_text_names_the_limit(tmp_path: Path) -> None:
    script = tmp_path / "limited.py"
    script.write_text(LIMITED.format(fraction="0.02"))
    code, out, _ = phantom_run("--gpu", "rtx-3060", "--", script)
    rows = {line[:16].strip(): line[16:] for line in out.splitlines()}
    assert code == 3
    assert rows["limit"] == "0.02 of the card's memory, 240.7 MiB, by set_per_process_memory_fraction"
    assert "; the limit of 0.02 of the card left " in rows["asked for"]


@pytest.mark.slow
def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    script = tmp_path / "all.py"
    script.write_text("import torch\ntorch.cuda.set_per_process_memory_fraction(1.0)\ntorch.ones(3, device='cuda')\n")
    assert report_of("--", script)["memory_fraction"] is None


@pytest.mark.parametrize("inside", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_allocator_of_the_driver_gets_one_line(inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = "backend:cudaMallocAsync"
    start = f"import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = '{setting}'\n" if inside else ""
    if not inside:
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", setting)
    (tmp_path / "async.py").write_text(f"{start}import torch\ntorch.ones(3, device='cuda')\n")
    code, out, err = phantom_run("--", tmp_path / "async.py")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "coopsim: PYTORCH_CUDA_ALLOC_CONF asks for backend:cudaMallocAsync, the driver's allocator; only PyTorch's own "
        "can be looked at: leave it out"
    )


HALF = """
import torch
class Offload(torch.optim.Optimizer):
    def __init__(self, parameters):
        self.inner = [torch.optim.AdamW([p]) for p in parameters]
        {groups}
    def step(self, closure=None):
        for optimizer in self.inner:
            optimizer.step()
    def zero_grad(self, set_to_none=True):
        for optimizer in self.inner:
            optimizer.zero_grad(set_to_none)
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = Offload(model.parameters())
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


GROUPS = "self.param_groups = [g for o in self.inner for g in o.param_groups]"


@pytest.mark.parametrize("groups", [pytest.param("", marks=pytest.mark.slow), GROUPS])
def test_optimizers_that_never_called_their_base_class(groups: str, tmp_path: Path) -> None:
    """torchao's CPUOffloadOptimizer is one: it has no `state`."""
    (tmp_path / "half.py").write_text(HALF.format(groups=groups))
    report = report_of("--", tmp_path / "half.py")
    assert (report["outcome"], report["steps"]) == ("ok", 3)
    assert report["peak_by_kind"]["optimizer_state"] == 2 * (1024 * 1024 + 1024) * 4


@pytest.mark.slow
def test_fit_allows_for_the_limit(tmp_path: Path) -> None:
    """It said that a script fits which its own limit ends."""
    script = tmp_path / "limited.py"
    script.write_text(LIMITED.format(fraction="0.02"))
    command = [sys.executable, "-m", "coopsim", "fit", "--gpu", "rtx-3060", "--", "python", str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith("Does not fit: needs ")
    assert "the script limits PyTorch to 2% of the card's memory" in done.stdout
