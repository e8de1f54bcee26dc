"""A step given as a function: recorded in a notebook's kernel with a phantom GPU, or by its file in a child."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import coopsim
from coopsim.trace import load
from tests.conftest import ROOT

PROGRAM = """
import torch
net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(8)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
x = torch.randn(16, 3, 32, 32, device="cuda")
def step():
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
RECORD = """
import coopsim, gc, json
for _ in range(3):
    step()
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
step()
plain = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
first = coopsim.capture(step, "first.parquet")
def fails():
    step()
    raise KeyError("mine")
try:
    coopsim.capture(fails)
except KeyError as error:
    caught = str(error)
again = coopsim.capture(lambda: step())
measured = coopsim.capture(step, device="cuda", passes=2)
clock = [list(measured.name) == list(first.name), measured.header["cost_source"][:8]]
refused = []
for wrong in ({"gpu": "h100-80gb"}, {"limit": True}, {"batch": 3}, {"steps": 0}):
    try:
        coopsim.capture(step, **wrong)
    except coopsim.CoopsimError as error:
        refused.append(str(error))
print(json.dumps([plain, caught, gc.isenabled(), again.content_hash == first.content_hash, clock, refused]))
"""


def run(cells: list[str], folder: Path) -> list[Any]:
    """What the last cell prints, of a notebook whose kernel starts in a folder."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    printed = [o.text for o in notebook.cells[-1].outputs if o.get("name") == "stdout"]
    found: list[Any] = json.loads("".join(printed))
    return found


def test_a_function_of_a_notebook_s_cell(record, tmp_path: Path) -> None:
    """Its peaks are the plain step's, to the byte, and its trace that of the same program in a file."""
    plain, caught, collects, same, measured, refused = run(["%load_ext coopsim", PROGRAM, RECORD], tmp_path)
    assert (caught, collects, same, measured) == ("'mine'", True, True, [True, "measured"])
    assert [text.partition(";")[0] for text in refused] == [
        "this process has a phantom NVIDIA A100-SXM4-80GB",
        "limit: that is for coopsim.phantom_gpu",
        "batch: the function makes its own",
        "steps must be at least 1",
    ]
    here, child = load(tmp_path / "first.parquet"), load(record(PROGRAM))
    assert [here.header[f"peak_{what}_bytes"] for what in ("allocated", "reserved")] == plain
    assert here.header["command"] == "coopsim.capture(step)"
    for column in ("name", "phase", "module", "cost_ns", "flops", "temporaries", "freed_after"):
        assert str(getattr(here, column)) == str(getattr(child, column)), column
    assert sorted(here.bytes) == sorted(child.bytes)  # what was there before the recorder has other numbers
    assert here.header["peak_requested_bytes"] == child.header["peak_requested_bytes"]


def alone(code: str, folder: Path) -> str:
    """What the code prints last, in a process of its own."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


def test_torch_without_nvidia_s_libraries_says_what_to_do(tmp_path: Path) -> None:
    """A package called torch stands for one that cannot be loaded; the phantom GPU must come before it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(
        "import torch.part\nraise ImportError('libcudnn.so.9: cannot open shared object file: No such file')\n"
    )
    (tmp_path / "torch/part.py").write_text("")
    code = (
        "import coopsim\ntry:\n    import torch\nexcept ImportError as error:\n    print(*error.__notes__)\n"
        "    try:\n        coopsim.phantom_gpu()\n    except coopsim.CoopsimError as late:\n"
        "        print(error.__notes__, late)"
    )
    said = alone(code, tmp_path)
    assert "%load_ext coopsim" in said
    assert "PyTorch was imported in this process before; start the process" in said


def test_a_function_of_a_file_is_recorded_by_its_file(phantom_gpu: object, tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text("def step():\n    import torch\n    torch.ones(3, device='cuda').exp()\n")
    code = (
        "import coopsim, lazy\nprint(coopsim.capture(lazy.step, gpu='rtx-4090').header['title'], end=' ')\n"
        "try:\n    coopsim.capture(lambda: 3)\nexcept coopsim.CoopsimError as error:\n    print(error)"
    )
    assert alone(code, tmp_path) == (
        "lazy.py:step step is no function at the top of a file, and this process has no phantom GPU to record it: "
        "before `import torch`, call coopsim.phantom_gpu, or in a notebook %load_ext coopsim"
    )


def test_a_file_that_captures_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its child, which has the variable, would start another, and so on."""
    monkeypatch.setenv("COOPSIM_CAPTURES", "1")
    with pytest.raises(coopsim.CoopsimError, match="put the call under `if __name__"):
        coopsim.capture("bert-large")


def test_wrong_cards(phantom_gpu: object) -> None:
    with pytest.raises(coopsim.CoopsimError, match="unknown card 'h300'"):
        coopsim.phantom_gpu("h300")
