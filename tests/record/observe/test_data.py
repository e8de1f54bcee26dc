"""Sizes, loops and decisions that depend on data, of which there are none on the phantom GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coopsim import trace
from tests.record.observe.runs import HERE, KINDS, PLAIN, plain, watched

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("phantom_gpu")

ALL = {
    "mask": [[100, 6]],
    "its inverse": [[100, 6]],
    "two dimensions": [[600]],
    "columns": [[100, 6]],
    "with an index": [[100]],
    "masked_select": [[600]],
    "nonzero": [[600, 2], [600, 2], [100]],
    "self loops": [[2, 5000]],
    "unique": [[600], [600], [100, 6], [600]],
    "unique rows": [[100, 6], [600]],
    "bincount": [[5000], [100]],
    "sparse": [[600], [5000]],
    "split": [[25]] * 4,
    "gradient": [[100, 6]],
}
HALF = ALL | {
    "mask": [[50, 6]],
    "its inverse": [[50, 6]],
    "two dimensions": [[300]],
    "columns": [[100, 3]],
    "with an index": [[50]],
    "masked_select": [[300]],
    "nonzero": [[300, 2], [300, 2], [50]],
    "self loops": [[2, 2500]],
    "unique": [[300], [300], [100, 6], [300]],
    "unique rows": [[50, 6], [300]],
    "bincount": [[2500], [100]],
    "sparse": [[300], [2500]],
    "split": [],
}
NONE = ALL | {
    "mask": [[0, 6]],
    "its inverse": [[0, 6]],
    "two dimensions": [[0]],
    "columns": [[100, 0]],
    "with an index": [[0]],
    "masked_select": [[0]],
    "nonzero": [[0, 2], [0, 2], [0]],
    "self loops": [[2, 0]],
    "unique": [[0], [0], [100, 6], [0]],
    "unique rows": [[0, 6], [0]],
    "bincount": [[1], [100]],
    "sparse": [[0], [0]],
    "split": [],
}


@pytest.mark.parametrize("masks", [*(pytest.param(m, marks=pytest.mark.slow) for m in ("all", "none")), "half"])
def test_sizes_are_those_that_masks_keep(masks: str, tmp_path: Path) -> None:
    report = watched(HERE / "sizes.py", tmp_path / masks, options=("--masks", masks))
    assert json.loads((tmp_path / masks).read_text()) == {"all": ALL, "half": HALF, "none": NONE}[masks]
    assert (report["masks"], report["other_masks"]) == (masks, None)
    assert {need["by"] for need in report["needs_data"]} == {"masks"}
    if masks != "none":
        return
    # Where masks keep nothing, what is watched takes what the plain script does.
    plain("-c", PLAIN, tmp_path / "peaks.json", HERE / "sizes.py", tmp_path / "plain")
    assert json.loads((tmp_path / "plain").read_text()) == NONE
    assert [report[f"peak_{kind}_bytes"] for kind in KINDS] == json.loads((tmp_path / "peaks.json").read_text())


#: Of each way to bring a mask of 4 rows of 8 to the host: how much of a row it keeps, with "all" and "half".
HOST_MASKS = {
    "bool().cpu()": ([8] * 4, [4] * 4),
    "numpy": ([8] * 4, [4] * 4),
    "tolist": ([8] * 4, [4] * 4),
    "with the prompt's": ([10] * 4, [6] * 4),
    "one minus": ([8] * 4, [4] * 4),
    "sum": ([8] * 4, [4] * 4),
    "sum of integers": ([8] * 4, [4] * 4),
    "longest": ([8], [4]),
    "argmax": ([8] * 4, [4] * 4),
    "pinned": ([8] * 4, [4] * 4),
    "element by element": ([8], [4]),
    "items": ([8], [4]),
    "steps": ([540], [540]),
}


@pytest.mark.parametrize("masks", [pytest.param("all", marks=pytest.mark.slow), "half"])
def test_masks_that_the_host_gets_keep_what_is_said(masks: str, tmp_path: Path) -> None:
    """Decoding by masks; loops that wait for flags go on all the same."""
    report = watched(HERE / "host_masks.py", tmp_path / "found", options=("--masks", masks))
    which = ("all", "half").index(masks)
    assert json.loads((tmp_path / "found").read_text()) == {name: both[which] for name, both in HOST_MASKS.items()}
    assert {need["by"] for need in report["needs_data"]} == {"masks"}
    assert [loop["iterations"] for loop in report["loops_ended"]] == [500]


@pytest.mark.slow
def test_the_larger_bound_is_the_report(tmp_path: Path) -> None:
    """A text ends where the host finds the first end: at once, if a mask keeps all."""
    (tmp_path / "ends.py").write_text(
        "import torch\n"
        "ends = (torch.rand(1000, device='cuda') > 0.5).cpu()\n"
        "length = int(ends.int().argmax()) if ends.any() else 1000\n"
        "torch.empty(length, 1 << 20, device='cuda')\n"
    )
    report = watched(tmp_path / "ends.py")
    other = report["other_masks"]
    assert (report["masks"], other["masks"]) == ("none", "all")
    assert report["peak_allocated_bytes"] > 4000 * MIB - MIB
    assert other["peak_allocated_bytes"] < MIB


def test_what_nobody_has_written_is_not_known(tmp_path: Path) -> None:
    """The host has no values for it either: it would find there what it has freed."""
    (tmp_path / "blank.py").write_text(
        "import torch\n"
        "known = torch.arange(1000, device='cuda')\n"
        "for _ in range(8):\n"
        "    made = torch.empty_like(known), known.new_empty(1000), torch.empty_like(known).scatter_(0, known, known)\n"
        "    found = [int(one.cpu().sum()) for one in made if torch.full((1000,), 7).sum()]\n"
        "    assert found == [0, 0, 499500], found\n"
    )
    watched(tmp_path / "blank.py")


EDGES = 100_000
MESSAGES = f"""
import torch
N, E, D = 5_000, {EDGES}, 64
layers = torch.nn.ModuleList([torch.nn.Linear(D, D) for _ in range(3)]).cuda()
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
edges = torch.randint(0, N, (2, E)).cuda()
for _ in range(2):
    x = torch.randn(N, D, device="cuda")
    for layer in layers:
        kept = SELECT
        x = torch.zeros_like(x).index_add(0, kept[1], layer(x)[kept[0]].relu())
    x.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
def test_both_bounds_are_said(tmp_path: Path) -> None:
    """Messages along edges without self loops: the upper bound is what it takes if all edges are selected by number."""
    (tmp_path / "masked.py").write_text(MESSAGES.replace("SELECT", "edges[:, edges[0] != edges[1]]"))
    (tmp_path / "all.py").write_text(MESSAGES.replace("SELECT", "edges[:, torch.arange(E, device='cuda')]"))
    masked, numbered = watched(tmp_path / "masked.py"), watched(tmp_path / "all.py")
    assert (numbered["needs_data"], numbered["other_masks"]) == ([], None)
    # Each layer keeps its messages and both ends of the edges; the backward pass makes two or three more of messages.
    least, message, nodes = 3 * EDGES * (64 * 4 + 2 * 8), EDGES * 64 * 4, 5_000 * 64 * 4
    assert least < numbered["peak_allocated_bytes"] < least + 3 * message + 12 * nodes
    assert masked["peak_allocated_bytes"] == pytest.approx(numbered["peak_allocated_bytes"], abs=MIB)
    low = masked["other_masks"]
    assert (low["masks"], low["outcome"], low["failure"]) == ("none", "ok", "")
    assert low["peak_allocated_bytes"] < least / 2


def test_experts_get_even_shares() -> None:
    report = watched(HERE / "routers.py")
    assert {need["by"] for need in report["needs_data"]} == {"even"}
    assert report["other_masks"] is None


@pytest.mark.slow
def test_loops_that_wait_for_data_end(tmp_path: Path) -> None:
    report = watched(HERE / "loops.py")
    assert report["steps"] == 700
    assert {loop["iterations"] for loop in report["loops_ended"]} == {500}
    assert len(report["loops_ended"]) == 6
    file = tmp_path / "solve.py"
    file.write_text(
        "import torch\n"
        "x = torch.rand(3, device='cuda')\n"
        "while True:\n"
        "    try:\n"
        "        while x.norm().item() < 1:\n"
        "            x = x * 2\n"
        "    except Exception:\n"
        "        pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "coopsim", "phantom", "run", "--", "python", str(file)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "coopsim: solve.py:5: this loop waits for a number that only a card computes: it has read it 500 times without "
        "a step of an optimizer, and would never end"
    )


def test_what_the_host_has_given_is_known(tmp_path: Path) -> None:
    (tmp_path / "known.py").write_text(
        "import copy\n"
        "import torch\n"
        "hidden = torch.rand(2, 4, 8, device='cuda')\n"
        "labels = torch.tensor([[1, -100, 3, 4], [-100, -100, 2, 1]], device='cuda')\n"
        "assert hidden[labels != -100].shape == (5, 8)\n"
        "assert (labels.cuda() != -100).nonzero().tolist() == [[0, 0], [0, 2], [0, 3], [1, 2], [1, 3]]\n"
        "padding = torch.tensor([3, 2]).cuda()\n"
        "mask = torch.arange(4, device='cuda') < padding[:, None]\n"
        "assert hidden[mask].split(mask.sum(1).tolist())[0].shape == (3, 8)\n"
        "done = torch.zeros(2, dtype=torch.bool, device='cuda')\n"
        "for length in range(9):\n"
        "    ended = (hidden[:, 0, 0] > 0.5) | torch.full((2,), length >= 5, device='cuda')\n"
        "    done |= ended\n"
        "    if done.all():\n"
        "        break\n"
        "assert length == 5, length\n"
        "image = torch.tensor([[9, 9, 1, 1], [1, 9, 1, 1]]).cuda() == 9\n"
        "hidden[image] = torch.rand(3, 8, device='cuda')\n"
        "assert hidden.masked_select(image[..., None]).numel() == 24\n"
        # Overwritten, it does not matter what a tensor held: as a copy's bytes, and as a count that nobody knew.
        "padding = copy.deepcopy(padding).add_(1)\n"
        "assert padding.tolist() == [4, 3]\n"
        "count = torch.randint(9, (), device='cuda')\n"
        "assert count.zero_().add_(1).item() == 1\n"
        "assert count.random_(9).fill_(2).add_(1).item() == 3\n"
        "assert count.random_(9).copy_(padding[0]).add_(1).item() == 5\n"
        "assert torch.histc(padding.int(), 4, 0, 3).shape == (4,)\n"  # the CPU has none of it
    )
    assert watched(tmp_path / "known.py")["needs_data"] == []


@pytest.mark.slow
def test_a_script_that_fails_with_the_upper_bound_is_run_with_the_lower(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(
        "import torch\nx = torch.rand(9, device='cuda')\nif len(x[x > 2]) > 5:\n    raise ValueError('too many')\n"
    )
    report = watched(tmp_path / "short.py")
    assert (report["masks"], report["other_masks"]["masks"]) == ("none", "all")
    assert report["other_masks"]["failure"].startswith("short.py:4: ValueError: too many")


@pytest.mark.parametrize(("masks", "want"), [pytest.param("all", 1000, marks=pytest.mark.slow), ("half", 500)])
def test_a_captured_step_says_what_masks_keep(masks: str, want: int, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(
        "import torch\nx = torch.rand(1000, 100, device='cuda')\ndef step():\n    return x[x[:, 0] > 0.5].exp().sum()\n"
    )
    file = tmp_path / "t.parquet"
    command = [sys.executable, "-m", "coopsim", "capture", "steps.py:step", "-o", str(file), "--masks", masks]
    subprocess.run(command, check=True, cwd=tmp_path)
    recorded = trace.load(file)
    assert recorded.header["masks"] == masks
    assert recorded.header["peak_requested_bytes"] == pytest.approx(400_000 + 2 * 400 * want, rel=0.2)


GENERATE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
sizes = dict(vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4)
with torch.device("cuda"):
    model = LlamaForCausalLM(LlamaConfig(**sizes, bos_token_id=1, eos_token_id=2, pad_token_id=3))
prompt = torch.randint(10, 1000, (2, 8), device="cuda")
options = dict(attention_mask=torch.ones_like(prompt), max_new_tokens=NEW)
for more in (dict(do_sample=True), dict(), dict(num_beams=2)):
    assert model.generate(prompt, **options, **more).shape == (2, 8 + NEW), more
"""


@pytest.mark.slow
def test_generation_of_transformers_ends_at_its_length(tmp_path: Path) -> None:
    (tmp_path / "generate.py").write_text(GENERATE.replace("NEW", "5"))
    assert watched(tmp_path / "generate.py")["loops_ended"] == []


MOE = """
import torch
from transformers import AutoModelForCausalLM, AutoConfig
sizes = dict(vocab_size=500, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
config = AutoConfig.for_model("NAME", **sizes, num_key_value_heads=4, pad_token_id=0, EXPERTS)
config._experts_implementation = "eager"
with torch.device("cuda"):
    model = AutoModelForCausalLM.from_config(config)
rows = []
place = torch.where
def where(*args):
    found = place(*args)
    if len(args) == 1:
        rows.append(found[0].numel())
    return found
torch.where = where
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ids = torch.randint(1, 500, (4, 64), device="cuda")
model(input_ids=ids, labels=ids).loss.backward()
optimizer.step()
assert rows == [4 * 64 * 2 // 8] * 8 * 2, rows
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "experts"),
    [
        ("mixtral", "num_local_experts=8, num_experts_per_tok=2"),
        ("qwen3_moe", "num_experts=8, num_experts_per_tok=2, moe_intermediate_size=48"),
    ],
)
def test_experts_of_transformers_get_even_shares(name: str, experts: str, tmp_path: Path) -> None:
    (tmp_path / "moe.py").write_text(MOE.replace("NAME", name).replace("EXPERTS", experts))
    report = watched(tmp_path / "moe.py")
    assert {need["by"] for need in report["needs_data"]} <= {"even"}
