"""Scripts that call several modules: which are the models, and what their blocks keep."""

from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.fitting import rows
from coopsim.fitting.bench import Bench
from coopsim.fitting.editing.copies import can_copy, copied
from coopsim.fitting.remedies import checkpointing, precision
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Script
from tests.conftest import Runner
from tests.fitting.made import verified

MIB = 1 << 20

SEVERAL = """
import torch
from torch import nn
from coopsim.fitting.inside.blocks import BlockMeter
from coopsim.fitting.inside.models import Models

class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.fails = False
    def forward(self, x):
        if self.fails:
            raise RuntimeError
        blocks.op("an op", 3, 5)
        return x + self.layers(x)

def body(depth=3):
    return nn.Sequential(*[Block() for _ in range(depth)]).cuda()

models = Models()
blocks = BlockMeter(models)

def measured():
    # of the last model: the bytes that its blocks keep, and what their ops cost
    return [[b["kept_bytes"], *(op["ns"] for op in b["ops"])] for b in blocks.levels(len(models.models) - 1)[0]]

x = torch.randn(8, 64, device="cuda")
x @ x.T  # cuBLAS takes its workspace
firsts = {
    "embedding": (nn.Embedding(10, 64), lambda m: m(torch.zeros(8, dtype=torch.int64, device="cuda"))),
    "frozen encoder": (nn.Linear(64, 64).requires_grad_(False), lambda m: m(x)),
    "conv stem": (nn.Conv1d(1, 64, 64), lambda m: m(x[:, None]).flatten(1)),
    "GRU": (nn.GRU(64, 64), lambda m: m(x)[0]),
    "another body": (body(2), lambda m: m(x)),
}
found = {}
for name, (first, call) in firsts.items():
    first, then = first.cuda(), body()
    for _ in range(2):
        then(call(first)).sum().backward()
    found[name] = measured()

shared = Block().cuda()
for net in (nn.Sequential(shared, Block().cuda()), nn.Sequential(Block().cuda(), shared)):
    net(x).sum().backward()
found["shared"] = measured()

failing = body()
failing(x)
failing[1].fails = True
try:
    failing(x)
except RuntimeError:
    failing[1].fails = False
failing(x).sum().backward()
found["failing"] = measured()
# a script that saves or copies its model as a whole takes nothing of ours along
assert not any(m._forward_hooks or m._forward_pre_hooks for m in failing.modules())
answer(found)
"""


def test_a_module_without_blocks_is_called_before_one_with_blocks(on_phantom: Runner) -> None:
    """Each block keeps its hidden values before and after GELU, beyond its result."""
    found = on_phantom(SEVERAL)
    hidden = 2 * 8 * 4 * 64 * 4
    assert found.pop("shared") == [[hidden, 3]] * 2
    assert all(kept == [[hidden, 3]] * 3 for kept in found.values()), found
    assert len(found) == 6


BLOCKS = """
import copy, sys, torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        return x + self.layers(x)

class Net(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
#: What is trained beside what; the lines that recompute all blocks; the lines of autocast.
SCRIPTS = {
    "twin": (
        """
policy = Net().cuda(); ref = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters())
for _ in range(2):
    x = torch.randn(4096, 256, device="cuda")
    with torch.no_grad():
        target = ref(x)
    (policy(x) - target).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
    assert not hasattr(ref.forward, "__wrapped__"), "the copy calls the forward pass of the first"
""",
        ["chosen = {*policy.blocks[:6]}", "apply_activation_checkpointing(policy, "],
        ["policy"],
    ),
    "larger teacher, in a function": (
        """
def main():
    teacher = Net(12).cuda().eval()
    student = Net(4).cuda()
    optimizer = torch.optim.AdamW(student.parameters())
    for _ in range(2):
        x = torch.randn(4096, 256, device="cuda")
        with torch.no_grad():
            target = teacher(x)
        (student(x) - target).square().mean().backward()
        optimizer.step(); optimizer.zero_grad()
main()
""",
        ["chosen = {*student.blocks[:4]}", "apply_activation_checkpointing(student, "],
        ["student"],
    ),
    "two towers": (
        """
images, texts = Net(), Net(3)
images = images.cuda()
texts = texts.cuda()
optimizer = torch.optim.AdamW([*images.parameters(), *texts.parameters()])
for _ in range(2):
    x = torch.randn(4096, 256, device="cuda")
    (images(x) - texts(x)).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
""",
        [
            "chosen = {*images.blocks[:6]}",
            "apply_activation_checkpointing(images, ",
            "chosen = {*texts.blocks[:3]}",
            "apply_activation_checkpointing(texts, ",
        ],
        ["images", "texts"],
    ),
    "frozen net in the loss": (
        """
perceived = Net().cuda().requires_grad_(False)
net = nn.Linear(256, 256).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(2):
    x = torch.randn(4096, 256, device="cuda")
    perceived(net(x)).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
""",
        ["chosen = {*perceived.blocks[:6]}", "apply_activation_checkpointing(perceived, "],
        ["net"],
    ),
    "embedding larger than the body": (
        """
words = nn.Embedding(20000, 256).cuda()
body = Net().cuda()
optimizer = torch.optim.SGD([*words.parameters(), *body.parameters()])
for _ in range(2):
    ids = torch.randint(20000, (4096,), device="cuda")
    body(words(ids)).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
""",
        ["chosen = {*body.blocks[:6]}", "apply_activation_checkpointing(body, "],
        ["words", "body"],
    ),
}


def surveyed(text: str, folder: Path, *, missing_mib: int) -> Bench:
    """A script on a card that lacks some memory for it."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    it = Script(("python", str(folder / "train.py")), card="rtx-3060", quiet=True)
    trials = Trials(it, Runs(lambda _: None))
    survey = trials.survey(folder / "requests.npy")
    trials.script = replace(it, memory_bytes=survey.needs_bytes - missing_mib * MIB)
    return Bench(trials, survey)


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_models_are_those_that_the_optimizers_train(name: str, tmp_path: Path) -> None:
    """And what is printed is what runs: recomputed, they take less, and so they do in bfloat16."""
    text, recomputes, halves = SCRIPTS[name]
    case = surveyed(BLOCKS + text, tmp_path, missing_mib=20)
    everything = checkpointing.most(case)
    assert everything is not None
    lines = [line for line in everything.lines if not line.startswith("from ")]
    assert [line[: len(wanted)] for line, wanted in zip(lines, recomputes, strict=True)] == recomputes
    done = verified(case, everything)
    assert done is not None
    assert (done.verified, done.stand_in) == (True, "")
    assert case.survey.needs_bytes - done.peak_device_bytes > 20 * MIB
    half = precision.proposal(case)
    assert half is not None
    assert [line.partition(".forward")[0] for line in half.lines] == halves
    if name != "frozen net in the loss":
        done = verified(case, half)
        assert done is not None
        assert (done.verified, done.stand_in) == (True, "")


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_lines_that_cannot_be_placed_are_tried_by_a_stand_in(tmp_path: Path) -> None:
    text = SCRIPTS["larger teacher, in a function"][0].replace("    student = ", "    for _ in range(1): student = ")
    case = surveyed(BLOCKS + text, tmp_path, missing_mib=20)
    everything = checkpointing.most(case)
    assert everything is not None
    done = verified(case, everything)
    assert done is not None
    assert done.stand_in == "train.py does not make student in one certain place"
    assert "(verified by a stand-in for these lines: train.py does not" in "\n".join(rows.lines([done]))


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_lines_that_fail_are_no_remedy(tmp_path: Path) -> None:
    """Though the change that they stand for would do."""
    case = surveyed(BLOCKS + SCRIPTS["twin"][0], tmp_path, missing_mib=20)
    everything = checkpointing.most(case)
    assert everything is not None
    wrong = replace(everything, after_model=("policy.no_such()",))
    assert verified(case, wrong) is None
    assert "no_such" in case.failure(wrong)
    assert case.trials.copies == [True]


def test_a_copy_of_a_script_has_what_lies_beside_it(tmp_path: Path) -> None:
    """Its own folder is not written to."""
    (tmp_path / "net" / "__pycache__").mkdir(parents=True)
    for name in ("train.py", "data.txt", "net/model.py", "net/other.py"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    script, model = str(tmp_path / "train.py"), str(tmp_path / "net" / "model.py")
    with copied(("python", script, "--x"), {model: "another"}) as command:
        assert command[::2] == ("python", "--x")
        copy = Path(command[1]).parent
        assert copy != tmp_path
        texts = {str(f.relative_to(copy)): f.read_text() for f in copy.rglob("*") if f.is_file()}
        wanted = {name: name for name in ("train.py", "data.txt", "net/other.py")} | {"net/model.py": "another"}
        assert texts == wanted
        assert not Path(command[1]).is_symlink()
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "net" / "model.py").read_text() == "net/model.py"
    assert can_copy(("python", script), {model: "another"})
    assert not can_copy(("bash", "-c", "python train.py"), {})
    assert not can_copy(("python", model), {script: ""})
