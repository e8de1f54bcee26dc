"""coopsim live run: a script as it is, on the phantom GPU and on the CPU."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Runner
from tests.live.command import SCRIPT, called, live
from tests.live.plans import TRAIN

KEYS = {
    *("outcome", "budget_bytes", "steps", "planned_steps", "peak_allocated_bytes", "peak_reserved_bytes", "evictions"),
    *("recomputes", "deviations", "replans", "device_calls", "predicted_overhead", "predicted_ns", "policy"),
    *("step_ns", "prices"),
}


def trained(folder: Path, text: str, *words: str) -> dict[str, Any]:
    """What is reported of a script that runs to its end."""
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    done = live(*words, "--json", "--", "python", str(script))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.usefixtures("child")
def test_a_script_trains_on_the_phantom_gpu_inside_a_budget() -> None:
    done = live("--gpu", "rtx-3060", "--memory", "90%", "--json", "--", "python", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) >= KEYS
    assert (found["outcome"], found["steps"]) == ("ok", 6)
    assert found["planned_steps"] >= 1
    assert found["evictions"] > 0
    assert len([line for line in done.stderr.splitlines() if line.startswith("0.0")]) == 6


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(("words", "code", "line"), [
    pytest.param(["--memory", "24MiB"], 3, "nothing more to send to the host", marks=pytest.mark.slow),
    (["--memory", "24"], 2, "no unit"),
    (["--memory", "99GiB"], 2, "the NVIDIA GeForce RTX 3060 has 11.75 GiB"),
    (["--memory", "70%", "--policy", "cop"], 2, "did you mean coop"),
])  # fmt: skip
def test_what_fails_says_so_in_one_line(words: list[str], code: int, line: str) -> None:
    done = live("--gpu", "rtx-3060", *words, "--", "python", str(SCRIPT))
    assert done.returncode == code, done.stderr
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(
    "verb",
    [pytest.param(("live", "run", "--memory", "2GiB"), marks=pytest.mark.slow), ("phantom", "run")],
    ids=" ".join,
)
def test_a_script_that_trains_on_the_cpu_is_no_answer(verb: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\n"
        "model = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n"
        "    model(torch.randn(5, 8)).sum().backward()\n"
        "    optimizer.step()\n",
        encoding="utf-8",
    )
    done = called(*verb, "--gpu", "rtx-3060", "--", "python", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("never used the GPU: nothing in it ran on the device cuda\n")


@pytest.mark.usefixtures("child")
@pytest.mark.slow
def test_mixed_precision_goes_by_plan() -> None:
    """Gradients are there when such a step starts, and go; cuBLAS's workspaces are of the budget."""
    done = live("--gpu", "a100-80gb", "--memory", "80%", "--json", "--", "python", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["unplanned"], found["planned_steps"]) == ("", 4)
    ns = found["predicted_ns"]
    assert ns["planned_gpu"] < 1.25 * ns["plain_gpu"]
    assert found["predicted_overhead"] == ns["planned"] / ns["plain"]  # its kernels take less than the host
    assert found["peak_allocated_bytes"] <= found["budget_bytes"]
    assert found["recomputes"] < 400


@pytest.mark.usefixtures("child")
def test_in_a_budget_below_the_least_steps_go_by_way_of_the_host() -> None:
    """And no plan is made, because of an op that the report names."""
    done = live("--gpu", "a100-80gb", "--memory", "70%", "--", "python", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    assert "no plan         aten._foreach_sqrt.default takes 57" in done.stdout


def test_a_program_that_ends_before_its_plan_is_made_says_so(tmp_path: Path) -> None:
    text = "import torch\nmodel = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])\n"
    step = "model(torch.randn(512, 64)).sum().backward()\noptimizer.step()\n"
    text += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + 2 * step
    found = trained(tmp_path, text, "--memory", "80%")
    wanted = 2, 0, "its plan was made when the last step was over"
    assert (found["steps"], found["planned_steps"], found["unplanned"]) == wanted


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_compiled_programs_are_refused() -> None:
    done = live("--gpu", "rtx-3060", "--memory", "70%", "--", "python", str(SCRIPT), "--compile")
    assert (done.returncode, "torch.compile hides its ops" in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_fsdp2_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    job = str(ROOT / "tests/run/ranks/scripts/fsdp2.py")
    for key, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(key, value)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    done = live("--gpu", "h100-80gb", "--memory", "8GiB", "--", "python", job)
    line = "coopsim: FSDP moves parameters itself: coopsim.live cannot run it inside a budget"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, line)


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize("gpu", [[], pytest.param(["--gpu", "h100-80gb"], marks=pytest.mark.slow)])
def test_jobs_of_several_ranks_are_refused_before_they_start(gpu: list[str], tmp_path: Path) -> None:
    """FSDP by torchrun, as it is mostly started."""
    job = tmp_path / "fsdp.py"
    job.write_text(f"open({str(tmp_path / 'started')!r}, 'w')\n", encoding="utf-8")
    done = live(*gpu, "--memory", "8GiB", "--", "torchrun", "--nproc-per-node", "2", str(job))
    said = "starts 2 ranks: coopsim live runs programs of one process, and no FSDP; name the script itself"
    line = f"coopsim: torchrun --nproc-per-node 2 fsdp.py {said}"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, line)  # torchrun warns before
    assert not (tmp_path / "started").exists()


LOOP = """
import torch
assert not torch.cuda.is_available()
model = torch.nn.Sequential(*(layer for _ in range(8) for layer in (torch.nn.Linear(128, 128), torch.nn.GELU())))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.randn(512, 128)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("child")
def test_on_the_cpu_with_a_torch_that_lacks_the_libraries_of_cuda(tmp_path: Path) -> None:
    found = trained(tmp_path, LOOP, "--arena", "--memory", "4MiB")
    assert (found["steps"], found["planned_steps"] >= 3, found["evictions"] > 0) == (5, True, True)
    assert found["no_arena"] == "the script does not train on a GPU"


OWN = """
import coopsim.live
budgets = [coopsim.live.Budget("1GiB") for _ in range(2)]
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.zeros(4, 8))
for budget in budgets:
    for _ in range(3):
        with budget.step():
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.usefixtures("child")
@pytest.mark.slow
def test_budgets_of_the_script_itself_made_before_torch_is_there(tmp_path: Path) -> None:
    """The first says what the steps are that are reported; another is the script's own affair."""
    assert trained(tmp_path, OWN, "--memory", "1GiB")["steps"] == 3


WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Crop(torch.nn.Module):
    def forward(self, x):
        return x[:512]

class Data(Dataset):
    crop = Crop()
    def __len__(self):
        return 4
    def __getitem__(self, _):
        modes = torch._C._len_torch_dispatch_stack()
        return self.crop(torch.randn(600, 128)), modes, torch._C._len_torch_dispatch_stack() - modes

if __name__ == "__main__":
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.GELU(), torch.nn.Linear(128, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, before, more in DataLoader(Data(), num_workers=1):
            assert (before.item(), more.item()) == (0, 0)
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_workers_that_load_data_take_no_steps(tmp_path: Path) -> None:
    """Forked before the first step and in the middle of one; what they transform data with are modules."""
    assert trained(tmp_path, WORKERS, "--memory", "1GiB")["steps"] == 8


@pytest.mark.slow
def test_the_same_losses_on_the_cpu(child: Runner) -> None:
    words = ["--device", "cpu", "--width", "64"]
    plain = child(f"import subprocess, sys\nanswer(subprocess.run([sys.executable, {str(SCRIPT)!r}, *{words}], "
                  "capture_output=True, text=True).stdout)")  # fmt: skip
    done = live("--memory", "70%", "--json", "--", "python", str(SCRIPT), *words)
    assert done.returncode == 0, done.stderr
    losses = [line for line in done.stderr.splitlines() if line.replace(".", "").isdecimal()]
    assert losses == plain.splitlines()
    assert json.loads(done.stdout)["planned_steps"] == 4


@pytest.mark.slow
@pytest.mark.usefixtures("child")
@pytest.mark.parametrize("script", ["trainer.py", "imagenet.py"])
def test_unmodified_scripts_train_on_a_card_that_cannot_hold_them(script: str, tmp_path: Path) -> None:
    """A Hugging Face Trainer, and a loop as in PyTorch's ImageNet example, on 3 GiB of a 4 GiB card."""
    words = ["--", "python", str(SCRIPT.with_name(script)), str(tmp_path)]
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", "gtx-1650", *words]
    plain = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert plain.returncode == 3, plain.stderr
    done = live("--gpu", "gtx-1650", "--memory", "3GiB", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{\n") :])  # what the Trainer prints comes first
    assert (found["outcome"], found["steps"]) == ("ok", 6)
    assert found["planned_steps"] >= 2
    assert found["peak_allocated_bytes"] <= found["budget_bytes"]


@pytest.mark.slow
@pytest.mark.usefixtures("child")
@pytest.mark.parametrize("offload", ["--offload", "--no-offload"])
def test_a_budget_in_bytes_holds_without_a_plan(offload: str) -> None:
    """Swin-T in half its memory, from the first step on: within 2 %, what the allocator fragments included."""
    done = live("--gpu", "rtx-3060", "--memory", "2400MiB", offload, "--json", "--", *TRAIN)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["steps"] == 6
    assert found["planned_steps"] >= 2
    assert found["peak_reserved_bytes"] <= 1.02 * (2400 << 20)
    assert (found["host_bytes"] > 0) is (offload == "--offload")  # of plans; steps without one may use the host, too
