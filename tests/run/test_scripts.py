"""`coopsim phantom run`: scripts written for a GPU, unchanged."""

import importlib.util
import pickle
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopsim import trace
from coopsim.run import Script, smallest
from coopsim.run.report import Report
from tests.run.command import SCRIPTS, phantom_run, report_of

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("phantom_gpu")


@pytest.mark.slow
@pytest.mark.parametrize("script", ["finetune.py", "vision.py", "custom.py"])
def test_the_smallest_memory_is_confirmed_by_runs_of_their_own(script: str) -> None:
    if script == "finetune.py" and importlib.util.find_spec("accelerate") is None:
        pytest.skip("transformers' Trainer needs accelerate")
    found = report_of("--gpu", "rtx-3060", "--fit", "--", "python", SCRIPTS / script)
    smallest = found["smallest_memory_bytes"]
    assert found["context_bytes"] + found["peak_allocated_bytes"] <= smallest <= found["peak_device_bytes"]
    above = report_of("--gpu", "rtx-3060", "--memory", f"{smallest}B", "--", "python", SCRIPTS / script)
    below = report_of("--gpu", "rtx-3060", "--memory", f"{smallest - 2 * MIB}B", "--", "python", SCRIPTS / script)
    assert (above["outcome"], below["outcome"]) == ("ok", "oom")
    assert above["steps"] == found["steps"] == (6 if script == "finetune.py" else 5)


def test_peaks_and_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "custom.parquet"
    report = report_of("--trace", file, "--", SCRIPTS / "custom.py")
    assert report["steps"] == 5
    assert report["needs_data"] == []
    recorded = trace.load(file)
    held = recorded.header["peak_requested_bytes"]
    assert held <= report["peak_requested_bytes"] <= report["peak_allocated_bytes"] <= report["peak_reserved_bytes"]
    # The last step is like the others but for what the first could not have: momentum.
    assert held == report["peak_requested_bytes"]
    unallocated = 1 - report["peak_allocated_bytes"] / report["peak_reserved_bytes"]
    assert report["reserved_but_unallocated"] == unallocated
    # 4 products forward, two for each backward; the first needs no gradient of its input
    assert list(recorded.name).count("aten.mm.default") == 11


def test_out_of_memory_says_who_held_it(tmp_path: Path) -> None:
    snapshot = tmp_path / "oom.pickle"
    report = report_of(
        "--gpu", "rtx-3060", "--memory", "300MiB", "--snapshot", snapshot, "--", "python", SCRIPTS / "vision.py"
    )
    failed = report["out_of_memory"]
    assert failed["place"].startswith("vision.py:")
    assert failed["phase"] == "forward"
    assert failed["op"].startswith("aten.")
    assert failed["module"].startswith("Sequential")
    assert abs(sum(failed["held_bytes"].values()) - failed["allocated_bytes"]) < MIB
    assert max(failed["held_bytes"], key=failed["held_bytes"].__getitem__) == "activation"
    assert failed["largest"][0]["bytes"] >= failed["largest"][-1]["bytes"]
    seen = pickle.loads(snapshot.read_bytes())  # noqa: S301 (our own)
    live = sum(block["size"] for s in seen["segments"] for block in s["blocks"] if block["state"] == "active_allocated")
    assert live == failed["allocated_bytes"]


BAD = {
    "import torch\nprint(torch.ones(3))\n": "bad.py never used the GPU: nothing in it ran on the device cuda",
    "import torch\nx = torch.ones(3, device='cuda')\nraise ValueError('two\\nlines')\n": "bad.py:3: ValueError: two",
    "import torch\nx = torch.rand(9, 2, device='cuda')\nx[x > 1][99]\n": (
        "bad.py:3: IndexError: index 99 is out of bounds for dimension 0 with size 18; aten.index.Tensor at bad.py:3 "
        "depends on data on the device, which is unknown here"
    ),
    "import torch\nn = int(torch.rand(1, device='cuda').item())\n[0][:n][0]\n": (
        "bad.py:3: IndexError: list index out of range; the last value read from the device was by "
        "aten._local_scalar_dense.default at bad.py:2, and is 0 here"
    ),
    "import torch, sys\ntorch.ones(3, device='cuda')\nsys.exit(7)\n": "bad.py ended with exit code 7",
    "import os, torch\ntorch.ones(3, device='cuda')\nos.kill(os.getpid(), 9)\n": (
        "bad.py was ended by signal 9, as by Linux when the host's memory runs out"
    ),
    "x = (\n": "bad.py:1: SyntaxError: '(' was never closed (bad.py, line 1)",
}


#: An error where sizes come from data, one that has nothing to do with data, an end by a signal, and no Python.
QUICK = [text for text in BAD if any(words in text for words in ("x[x > 1][0]", "raise", "os.kill", "x = ("))]


@pytest.mark.parametrize("text", [t if t in QUICK else pytest.param(t, marks=pytest.mark.slow) for t in BAD])
def test_scripts_that_cannot_be_judged_end_in_one_line(text: str, tmp_path: Path) -> None:
    """Below their own traceback."""
    (tmp_path / "bad.py").write_text(text)
    code, out, err = phantom_run("--", "python", tmp_path / "bad.py")
    assert code == 2
    *before, last = err.splitlines()
    assert last == f"coopsim: {BAD[text]}"
    assert ("Error" in " ".join(before)) == ("Error" in last)
    assert not out or out.startswith("tensor")


@pytest.mark.slow
def test_a_script_that_looks_for_torch_first_and_draws_from_distributions(tmp_path: Path) -> None:
    """As transformers looks for it; PyTorch refuses to make a distribution of values that are not there."""
    file = tmp_path / "policy.py"
    file.write_text(
        "import importlib.util\n"
        "assert importlib.util.find_spec('torch')\n"
        "import torch\n"
        "model = torch.nn.Linear(8, 4).cuda()\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for _ in range(3):\n"
        "    chosen = torch.distributions.Categorical(logits=model(torch.randn(16, 8, device='cuda')))\n"
        "    spread = torch.distributions.Normal(torch.zeros(16, device='cuda'), torch.ones(16, device='cuda'))\n"
        "    (chosen.log_prob(chosen.sample()) * spread.sample()).sum().backward()\n"
        "    optimizer.step()\n",
        encoding="utf-8",
    )
    assert report_of("--", file)["steps"] == 3


@pytest.mark.slow
def test_too_short_for_a_trace(tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text(
        "import torch\nx = torch.ones(3, device='cuda', requires_grad=True)\ntorch.optim.SGD([x]).step()\n"
    )
    code, _, err = phantom_run("--trace", tmp_path / "t", "--trace-steps", 9, "--", "python", script)
    assert code == 2
    assert err.splitlines()[-1] == (
        "coopsim: short.py is too short for a trace: that takes 11 calls of a torch optimizer's step"
    )
    assert list(tmp_path.iterdir()) == [script]


def test_sizes_that_depend_on_data_are_pointed_out(tmp_path: Path) -> None:
    text = "import torch\nx = torch.rand(9, 2, device='cuda')\nfor _ in range(3):\n    x[x > 1]\n    x[[0, 1]]\n"
    (tmp_path / "mask.py").write_text(text)
    report = report_of("--", "python", tmp_path / "mask.py")
    assert report["needs_data"] == [{"op": "aten.index.Tensor", "place": "mask.py:4", "calls": 3, "by": "masks"}]
    assert report["masks"] == "all"
    assert report["other_masks"]["masks"] == "none"


@given(st.integers(1, 4000), st.integers(0, 2000), st.integers(0, 2000), st.one_of(st.none(), st.integers(-99, 9999)))
def test_the_search_ends_at_the_edge(low: int, edge: int, room: int, guess: int | None) -> None:
    step, asked = smallest.STEP, []
    threshold = (low + edge) * step

    def fits(nbytes: int) -> bool:
        asked.append(nbytes)
        return nbytes >= threshold

    found = smallest.smallest(fits, low * step, threshold + room * step, guess and guess * step)
    assert found == threshold
    assert len(asked) <= 30
    if guess == low + edge and edge and room:
        assert len(asked) == 2


@pytest.mark.parametrize(("warm", "edge"), [(540, 536), (700, 696), (600, 640), (600, 520)])
def test_of_compiled_scripts_both_sizes_are_tried(
    warm: int, edge: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With kernels in the cache they take other memory, on some cards (here 640 MiB) too much; bounds may be wrong."""
    tried = []

    def report(nbytes: int, outcome: Literal["ok", "oom"], peak: int) -> Report:
        allocated, reserved = (peak - 140) * MIB, (peak - 100) * MIB
        peaks = {"peak_allocated_bytes": allocated, "peak_reserved_bytes": reserved, "peak_requested_bytes": allocated}
        counts = {"steps": 4, "retries": 0, "ooms": 0, "processes": 1, "compiled_graphs": 1}
        card = {"context_bytes": 100 * MIB, "peak_device_bytes": peak * MIB}
        return Report(
            command=[], gpu="t4", memory_bytes=nbytes, outcome=outcome, versions={}, **peaks, **counts, **card
        )

    def run(script: Script, *, requests: Path | None = None) -> Report:
        tried.append(script.total_bytes)
        needs = warm if requests else edge
        return report(tried[-1], "ok" if tried[-1] >= needs * MIB else "oom", warm)

    monkeypatch.setattr(smallest, "run", run)
    script = Script(("train.py",), "t4", 640 * MIB)
    found, runs = smallest.fit(script, report(640 * MIB, "ok", 500), tmp_path / "requests.npy", lambda _: None)
    assert found == edge * MIB
    assert {found, found - 2 * MIB} < set(tried)
    assert runs == len(tried) < 20


RANK = """
import os, sys, torch
x = torch.ones(10, device="cuda")
if "leave" in sys.argv:
    os._exit(7)
x.view(3, 5)
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "rank.py:6: RuntimeError: shape '[3, 5]' is invalid for input of size 10"),
        pytest.param(
            ("leave",),
            "rank 0: torchrun --nproc-per-node 1 rank.py leave ended with exit code 7",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_launcher_that_fails_says_what_its_rank_said(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    code, out, err = phantom_run("--", "torchrun", "--nproc-per-node", "1", tmp_path / "rank.py", *words)
    assert (code, out) == (2, "")
    assert says in err.splitlines()[-1]
    assert "ChildFailedError" not in err.splitlines()[-1]


def test_positions_are_known(tmp_path: Path) -> None:
    """transformers asks of positions whether sequences are packed. Other data stay zeros."""
    text = """
import torch
ids = torch.rand(2, 6, device="cuda").long()
positions = torch.arange(6, device="cuda").unsqueeze(0)
diff = torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1)
packed = (diff != 1).cumsum(-1)
causal = positions.view(1, 6) <= positions.view(6, 1)
print(bool((packed[:, -1] == 0).all()), positions.tolist(), causal.sum().item(), (positions + ids).sum().item())
"""
    (tmp_path / "positions.py").write_text(text)
    code, out, err = phantom_run("--", tmp_path / "positions.py")
    assert code == 0, err
    assert out.splitlines()[0] == "True [[0, 1, 2, 3, 4, 5]] 21 0"
