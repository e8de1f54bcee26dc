"""Captured programs against what is known of them by hand, and against the real allocator's own account."""

import hashlib
import importlib.metadata
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from coopsim.base.types import Action
from coopsim.cards import wheel
from coopsim.record.capture import Job, capture
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace, load, measure
from tests.conftest import Recorder

TRACES = Path(__file__).parents[3] / "traces"

MLP = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(128, 32)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
x = torch.ones(16, 64, device="cuda")

def step():
    global loss
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def mlp_file(record) -> Path:
    return record(MLP)


@pytest.fixture(scope="module")
def mlp(mlp_file: Path) -> Trace:
    return load(mlp_file)


def ops(trace: Trace) -> list[tuple[str, str, str]]:
    return [(n.removeprefix("aten."), p, m) for n, p, m in zip(trace.name, trace.phase, trace.module, strict=True)]


def test_mlp_ops_phases_modules(mlp: Trace) -> None:
    forward, backward, optimizer = "forward", "backward", "optimizer"
    assert ops(mlp) == [
        ("addmm.default", forward, "0"),
        ("relu_.default", forward, "1"),
        ("native_dropout.default", forward, "2"),
        ("addmm.default", forward, "3"),
        ("sum.default", forward, ""),
        ("ones_like.default", backward, ""),
        ("mm.default", backward, "3"),
        ("mm.default", backward, "3"),
        ("sum.dim_IntList", backward, "3"),
        ("native_dropout_backward.default", backward, "2"),
        ("threshold_backward.default", backward, "1"),
        ("mm.default", backward, "0"),
        ("sum.dim_IntList", backward, "0"),
        *[("add_.Tensor", optimizer, "")] * 4,
    ]
    assert [mlp.name[i] for i in range(mlp.n_ops) if mlp.random[i]] == ["aten.native_dropout.default"]


def test_mlp_storages(mlp: Trace) -> None:
    """Alive at the start: 4 parameters, the input, and what the step before left: 4 gradients and the loss."""
    start = [(mlp.role[i], int(mlp.bytes[i])) for i in range(mlp.n_storages) if mlp.alive_at_start[i]]
    parameters = [("parameter", 4 * n) for n in (64 * 128, 128, 128 * 32, 32)]
    gradients = [("gradient", 4 * n) for n in (128 * 32, 32, 64 * 128, 128)]
    assert start[:5] == [*parameters, ("input", 4 * 16 * 64)]
    assert sorted(start[5:]) == sorted([*gradients, ("input", 4)])
    names = dict(enumerate(mlp.name))
    created = {s: names[i] for i in range(mlp.n_ops) for s in mlp.creates[i]}
    assert [s for s in created if mlp.role[s] == "gradient"] == mlp.creates[7] + mlp.creates[8] + mlp.creates[
        11
    ] + mlp.creates[12]
    weight, bias, x = 0, 1, 4
    assert mlp.reads[0] == [bias, x, weight]
    assert mlp.mutates[1] == mlp.creates[0]  # relu_, in place
    assert mlp.reads[1] == []
    assert {tuple(mlp.mutates[i]) for i in range(13, 17)} == {(0,), (1,), (2,), (3,)}


def test_mlp_frees(mlp: Trace) -> None:
    after = {int(s): int(op) for s, op in zip(mlp.freed, mlp.freed_after, strict=True)}
    start = [s for s in range(mlp.n_storages) if mlp.alive_at_start[s]]
    assert sorted(after[s] for s in start if s in after) == [-1] * 4 + [4]  # zero_grad; the loss, when replaced
    hidden, (dropped, mask), out = mlp.creates[0][0], mlp.creates[2], mlp.creates[3][0]
    assert after[out] == 4
    assert after[dropped] == 8  # the gradients of the second layer were its last readers
    assert after[mask] == 9
    assert after[hidden] == 10


def test_mlp_repeats(mlp: Trace) -> None:
    """What stays takes the place of what was there at the start."""
    loss, gradients = mlp.creates[4], [s for i in (7, 8, 11, 12) for s in mlp.creates[i]]
    heirs = {s: int(h) for s, h in enumerate(mlp.becomes) if h not in (-1, s)}
    assert sorted(heirs) == sorted(loss + gradients)
    assert all(mlp.bytes[s] == mlp.bytes[h] for s, h in heirs.items())
    assert (mlp.header["leaked_storages"], mlp.header["lost_storages"]) == (0, 0)


def test_mlp_costs(mlp: Trace) -> None:
    assert mlp.flops[0] == 2 * 16 * 64 * 128
    assert mlp.bytes_moved[0] == 4 * (64 * 128 + 128 + 16 * 64 + 16 * 128)
    assert mlp.bytes_moved[1] == 2 * 4 * 16 * 128  # in place: read and written
    assert min(mlp.cost_ns) > 2000
    assert max(mlp.cost_ns) < 12_000  # launches


def test_mlp_header(mlp: Trace) -> None:
    header = dict(mlp.header)
    assert header["model"] == "program"  # its file; its function is only `step`
    assert header["command"] == "coopsim capture program.py:step"
    assert header["device"] == "phantom NVIDIA A100-SXM4-80GB"
    assert header["parameters"] == 64 * 128 + 128 + 128 * 32 + 32
    assert header["optimizer"] == "SGD"
    assert header["ops_kept"] == mlp.n_ops < header["ops_dispatched"]
    assert "/" not in json.dumps({k: v for k, v in header.items() if k != "cost_source"})


BROAD = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.tail = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(2))
        self.rnn = nn.LSTM(16, 32, 2, bidirectional=True, batch_first=True, dropout=0.1)
        self.mix = nn.Linear(64, 96)
        self.head = nn.Linear(32, 10)
    def attend(self, h):
        q, k, v = self.mix(h).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
    def forward(self, x):
        h, _ = self.rnn(self.tail(self.body(x)).transpose(1, 2))
        h = checkpoint(self.attend, h, use_reentrant=False)
        return self.head(h.transpose(1, 2).flatten(2).mean(1))
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler("cuda")
def step():
    images, labels = torch.rand(8, 3, 64, 64).cuda(), torch.zeros(8, dtype=torch.long).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(net(images), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def broad(record) -> Trace:
    """Without cuDNN's workspaces: one gradient's is freed before the other gradient is allocated, within one op."""
    return load(record(BROAD, steps=2, card="h100-80gb", workspaces="none"))


def peak_bytes(trace: Trace) -> int:
    """The most that storages and temporaries take together, from the rows of the trace alone."""
    live = peak = int(trace.bytes[trace.alive_at_start].sum())
    frees = dict.fromkeys(range(-1, trace.n_ops), 0)
    for storage, op in zip(trace.freed, trace.freed_after, strict=True):
        frees[int(op)] += int(trace.bytes[storage])
    live -= frees[-1]
    for op in range(trace.n_ops):
        live += sum(int(trace.bytes[s]) for s in trace.creates[op])
        peak = max(peak, live + sum(trace.temporaries[op]))
        live -= frees[op]
    return peak


def test_peak_is_the_allocators_to_the_byte(mlp: Trace, broad: Trace) -> None:
    """PyTorch's allocator counts what was asked of it; cuBLAS's workspaces are the only bytes that we do not name."""
    for trace in (mlp, broad, load(TRACES / "bert-large.parquet")):
        assert peak_bytes(trace) == trace.header["peak_requested_bytes"] - trace.header["workspace_bytes"]


def test_batch_norm_mutates_its_statistics(broad: Trace) -> None:
    found = [i for i, name in enumerate(broad.name) if "batch_norm" in name and broad.phase[i] == "forward"]
    assert len(found) == 2  # a step each
    assert {broad.role[s] for s in broad.mutates[found[0]]} == {"buffer"}
    assert len(broad.mutates[found[0]]) == 2


def test_steps_are_numbered_and_alike(broad: Trace) -> None:
    first, second = ([op for op, s in zip(ops(broad), broad.step, strict=True) if s == k] for k in (0, 1))
    assert first == second
    assert broad.n_steps == 2


def test_phases_of_a_scaled_and_clipped_step(broad: Trace) -> None:
    """The scaler's and the clipping's ops count as the optimizer's; the batch that comes from the host is an input."""
    phase = dict(zip(broad.name, broad.phase, strict=True))
    assert phase["aten._amp_foreach_non_finite_check_and_unscale_.default"] == "optimizer"
    assert phase["aten._foreach_norm.Scalar"] == "optimizer"
    assert phase["aten._amp_update_scale_.default"] == "optimizer"
    assert any(name.startswith("aten._foreach_addcdiv_") for name in broad.name)  # the scaler let the optimizer step
    images = broad.creates[0][0]
    assert (broad.role[images], broad.bytes[images]) == ("input", 4 * 8 * 3 * 64 * 64)


def test_recomputed_ops_are_backward_ops_of_their_module(broad: Trace) -> None:
    products = [p for n, p, m in ops(broad) if m == "mix" and n == "mm.default"]
    assert products == ["forward", "backward", "backward", "backward"] * 2  # once more, then its two gradients
    random = {(n, p) for (n, p, _), r in zip(ops(broad), broad.random, strict=True) if r}
    assert {p for n, p in random if "attention" in n} == {"forward", "backward"}


def test_same_bytes_twice(mlp_file: Path, record) -> None:
    assert record(MLP, again=True).read_bytes() == mlp_file.read_bytes()


def test_leak_is_counted(record) -> None:
    text = "import torch\nkept = []\ndef step():\n    kept.append(torch.ones(10, device='cuda'))\n"
    trace = load(record(text, warmup=0))
    assert trace.header["leaked_storages"] == 1
    assert trace.freed.tolist() == trace.creates[0]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


MANIFEST = tomllib.loads((TRACES / "MANIFEST.toml").read_text())
QUICK = "unet.parquet"  # the others are recorded again in the slow tests


@pytest.mark.parametrize(
    "file", [pytest.param(f, marks=[] if f == QUICK else pytest.mark.slow) for f in sorted(MANIFEST)]
)
@pytest.mark.usefixtures("phantom_gpu")
def test_committed_trace(file: str, tmp_path: Path) -> None:
    """The command that the manifest names gives the same rows again."""
    entry, committed = MANIFEST[file], load(TRACES / file)
    assert committed.content_hash == entry["content_hash"]
    for package, here in (("torch", wheel.find().version), ("transformers", _version("transformers"))):
        if here != entry.get(package, here):
            pytest.skip(f"recorded with {package} {entry[package]}, here is {here}")
    target = entry["command"].split()[2]
    options = {} if ".py:" not in target else {"precision": "tf32"}
    if options:
        assert "--precision tf32" in entry["command"]
        target = str(TRACES.parent / target)
    capture(Job(target, tmp_path / file, steps=committed.header["steps_recorded"], **options))
    assert load(tmp_path / file).content_hash == entry["content_hash"]


def test_committed_traces_are_known_and_small() -> None:
    nine = ["bert-large", "bilstm", "gpt3-2.7b", "inception-v3", "moe", "resnet-50", "spos", "swin-t", "unet"]
    held_out = ["densenet-121", "gpt-2", "inception-v4", "resnet-152"]
    recorded_next = ["convnext-t", "efficientnet-b0", "t5-base", "vit-b"]
    recorded_then = ["llama-1.1b", "mobilevit-s", "regnet-y", "whisper-small"]
    recorded_later = ["bart-base", "clip-b32", "mobilenet-v2", "poolformer-s12"]
    recorded_after = ["mixer-b16", "segformer-b0", "vgg-16", "wav2vec2-base"]
    recorded_last = ["albert-base", "deberta-base", "resnext-50", "shufflenet-v2"]
    recorded_last += ["edsr", "opt-350m", "squeezenet", "xlm-r-base"]
    names = nine + held_out + recorded_next + recorded_then + recorded_later + recorded_after + recorded_last
    assert sorted(MANIFEST) == sorted(f"{name}.parquet" for name in names)
    assert sum((TRACES / file).stat().st_size for file in MANIFEST) < 10 * 2**20
    for file, entry in MANIFEST.items():
        assert hashlib.sha256((TRACES / file).read_bytes()).hexdigest() == entry["sha256"]
        header = load(TRACES / file).header
        assert (header["leaked_storages"], header["lost_storages"], header["precision"]) == (0, 0, "tf32")


def test_routing_differs_from_step_to_step() -> None:
    """The same ops in each step of the mixture of experts, but for those that got no tokens, on other sizes."""
    trace = load(TRACES / "moe.parquet")
    sizes = [trace.bytes[trace.creates[i]].tolist() for i in range(trace.n_ops)]
    steps = [[sizes[i] for i in np.flatnonzero(trace.step == k)] for k in range(trace.n_steps)]
    assert len(steps) == 5
    assert all(a != b for k, a in enumerate(steps) for b in steps[:k])


def test_spos_steps_differ() -> None:
    trace = load(TRACES / "spos.parquet")
    steps = [tuple(trace.name[i] for i in np.flatnonzero(trace.step == k)) for k in range(trace.n_steps)]
    assert len(set(steps)) == len(steps) == 5


def test_bert_large_is_the_published_setting() -> None:
    trace = load(TRACES / "bert-large.parquet")
    assert (trace.n_ops, trace.n_storages) == (1887, 2071)
    assert trace.header["parameters"] == 336_226_108
    assert round(trace.header["peak_live_bytes"] / 2**30, 2) == 30.09
    assert round(int(trace.cost_ns.sum()) / 1e6, 1) == 327.5


LENGTHS = """
import torch
embedding = torch.nn.Embedding(100, 64).cuda()
layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(3)]).cuda()
optimizer = torch.optim.SGD([*embedding.parameters(), *layers.parameters()], lr=0.1)
lengths = iter([16, 16, 128, 32, 512] + [1] * 9)  # two steps to warm up


def step():
    tokens = torch.zeros(4, next(lengths), dtype=torch.long, device="cuda")
    layers(embedding(tokens)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_steps_of_different_lengths(record: Recorder) -> None:
    """A sequence of steps as a loader of texts gives them, repeated in one memory."""
    trace = load(record(LENGTHS, steps=3))
    assert trace.n_steps == 3
    made = [max(trace.bytes[s] for o in np.flatnonzero(trace.step == k) for s in trace.creates[o]) for k in range(3)]
    assert [int(n) for n in made] == [4 * length * 64 * 4 for length in (128, 32, 512)]
    schedule = replay(trace, "coop", int(0.9 * measure.peak_bytes(trace, 512)), steps=7)
    assert schedule.header["outcome"] == "ok"
    assert validate(schedule, trace) == []
    computed = schedule.op[schedule.action == Action.COMPUTE]
    assert len(computed) == 2 * trace.n_ops + (trace.step == 0).sum()
