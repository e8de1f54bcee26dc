"""Twenty public reports of trouble with a GPU's memory: the smallest form of each, and what its thread found.

Written anew; the models are small, so that figures are those of our forms, not of the reports.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.run.command import phantom_run, report_of_text

pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]
MIB = 1 << 20

STEP = """
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x=None):
    model(torch.zeros(64, 1024, device="cuda") if x is None else x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

VALIDATION_WITH_GRADIENTS = f"""{STEP}
for epoch in range(2):
    model.train()
    step()
    model.eval()
    total = 0
    for _ in range(20):
        total += model(torch.zeros(1024, 1024, device="cuda")).mean()
"""

PIPELINES = f"""{STEP}
pipelines = []
for i in range(8):
    step()
    if i % 2:
        pipelines.append(torch.nn.Linear(1024, 1024).cuda())
        with torch.no_grad():
            pipelines[-1](model(torch.zeros(64, 1024, device="cuda")))
"""

ENCODER = f"""{STEP}
encoder = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
with torch.no_grad():
    prompts = encoder(torch.zeros(64, 1024, device="cuda"))
for _ in range(4):
    step(prompts)
"""

LARGER_BATCHES = f"""{STEP}
for _ in range(2):
    step()
    model.eval()
    with torch.no_grad():
        model(torch.zeros(64 * 256, 1024, device="cuda"))
    model.train()
"""

PREDICTIONS_ON_THE_HOST = f"""{STEP}
predicted = torch.empty(0, 1024)
for _ in range(8):
    x = torch.zeros(1024, 1024, device="cuda")
    step(x)
    with torch.no_grad():
        predicted = torch.cat((predicted, model(x).cpu()))
"""

CURVATURE = f"""{STEP}
parameters, products = list(model.parameters()), []
for _ in range(10):
    loss = model(torch.zeros(64, 1024, device="cuda")).square().mean()
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    inner = sum(g.sum() for g in gradients)
    products.append(torch.autograd.grad(inner, parameters, create_graph=True))
    optimizer.step()
"""

SUM_OF_LOSSES = f"""{STEP}
total = 0
for _ in range(16):
    loss = model(torch.zeros(64, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total = total + loss
"""

GRADIENT_PENALTY = f"""{STEP}
for _ in range(8):
    x = torch.zeros(512, 1024, device="cuda", requires_grad=True)
    model(x).tanh().square().mean().backward(create_graph=True)
    (x.grad.norm() - 1).square().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

OUTPUTS_AND_LABELS = f"""{STEP}
step()
model.eval()
outputs, labels = [], []
with torch.no_grad():
    for _ in range(8):
        x = torch.zeros(1024, 1024, device="cuda")
        outputs.append(model(x))
        labels.append(x[:, :512].clone())
"""

METRIC_WITHOUT_RESET = f"""{STEP}
class Metric:
    def __init__(self):
        self.preds = []
    def update(self, preds):
        self.preds.append(preds)
metric = Metric()
for epoch in range(3):
    model.train()
    step()
    model.eval()
    with torch.no_grad():
        for _ in range(4):
            metric.update(model(torch.zeros(2048, 1024, device="cuda")))
model.train()
step()
"""

REPLAY = f"""{STEP}
from collections import deque
class Replay:
    def __init__(self):
        self.memory = deque(maxlen=100_000)
    def push(self, *what):
        self.memory.append(what)
replay = Replay()
for _ in range(8):
    with torch.no_grad():
        state = torch.zeros(512, 1024, device="cuda")
        replay.push(state, model(state))
    step(replay.memory[0][0])
"""

RECURRENT_STATE = f"""{STEP}
cell = torch.nn.LSTMCell(1024, 1024).cuda()
hidden, experience = None, []
for _ in range(8):
    hidden = cell(torch.zeros(64, 1024, device="cuda"), hidden)
    experience.append({{"state": hidden[0], "reward": 0.0}})
    step(hidden[0].detach())
"""

FEATURES_OF_HOOKS = f"""{STEP}
features = {{}}
def keep(name):
    return lambda module, inputs, output: features.setdefault(name, []).append(output)
for name, layer in model.named_children():
    layer.register_forward_hook(keep(name))
for _ in range(8):
    step(torch.zeros(512, 1024, device="cuda"))
"""

PLAY = """
import torch
policy = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ELU(), torch.nn.Linear(1024, 1024)).cuda().eval()
seen = torch.zeros(1024, 1024, device="cuda")
for _ in range(30):
    seen = seen + policy(seen)
"""

NODES_OF_GRAPHS = f"""{STEP}
for size in (1000, 1300, 1700, 2100, 2600, 3100, 3700, 4300):
    step(torch.zeros(4 * size, 1024, device="cuda"))
"""


def _without_gradients(found: dict[str, Any]) -> bool:
    of = found["phases"]["evaluation"]
    return bool(of["with_gradients"] == 40 and of["grows_bytes"] >= 4 * MIB)


def _larger_than_steps(found: dict[str, Any]) -> bool:
    steps, of = (found["phases"][name]["peak_allocated_bytes"] for name in ("later steps", "evaluation"))
    return bool(of - steps > 2 * 50 * MIB)  # two of 64 MiB are alive at a time, and no gradients


def _kept_in(found: dict[str, Any]) -> list[str]:
    return [one["name"] for one in found["growth"]["kept_in"]]


FOUND: dict[str, tuple[str, Callable[[dict[str, Any]], bool]]] = {
    "CambridgeCIA/LION 115: validation without torch.no_grad()": (VALIDATION_WITH_GRADIENTS, _without_gradients),
    "huggingface/diffusers 9546: the pipeline of each validation is kept": (
        PIPELINES,
        lambda found: found["phases"]["evaluation"]["left_bytes"] >= 4 * MIB,
    ),
    "PixArt-alpha/PixArt-sigma 102: the text encoder is kept after its last use": (
        ENCODER,
        lambda found: [one["name"] for one in found["unused"]] == ["encoder"],
    ),
    "huggingface/pytorch-image-models 80: validation has larger batches": (LARGER_BATCHES, _larger_than_steps),
    "pytorch/pytorch 13613: predictions kept on the host take nothing of the card": (
        PREDICTIONS_ON_THE_HOST,
        lambda found: found["growth"] is None and not found["phases"]["evaluation"]["left_bytes"],
    ),
    "pytorch/pytorch 2498: Hessian-vector products keep their graphs": (
        CURVATURE,
        lambda found: _kept_in(found) == ["products"],
    ),
    "pytorch/pytorch 1840: a sum of losses keeps the graph of each": (
        SUM_OF_LOSSES,
        lambda found: _kept_in(found) == ["total"] and found["growth"]["kept_in"][0]["nodes"] > 0,
    ),
    "caogang/wgan-gp 21: backward(create_graph=True) makes cycles": (
        GRADIENT_PENALTY,
        lambda found: found["growth"]["bytes_per_step"] == 4 * MIB and not _kept_in(found),
    ),
    "facebookresearch/SlowFast 411: an evaluation keeps outputs and labels on the card": (
        OUTPUTS_AND_LABELS,
        lambda found: [one["name"] for one in found["evaluation_keeps"]] == ["outputs", "labels"],
    ),
    "NRCan/geo-deep-learning 582: a metric is never reset": (
        METRIC_WITHOUT_RESET,
        lambda found: [one["name"] for one in found["evaluation_keeps"]] == ["metric.preds"],
    ),
    "recursionpharma/gflownet 130: a replay buffer on the card": (
        REPLAY,
        lambda found: _kept_in(found) == ["replay.memory"],
    ),
    "Metta-AI/metta 1139: a recurrent state is stored with its graph": (
        RECURRENT_STATE,
        lambda found: _kept_in(found) == ["experience", "hidden"],
    ),
    "Mikubill/sketch2img 7: hooks that store features": (
        FEATURES_OF_HOOKS,
        lambda found: _kept_in(found) == ["features"],
    ),
    "Improbable-AI/walk-these-ways 10: a policy is played with gradients": (
        PLAY,
        lambda found: found["no_backward"] == 30,
    ),
    "facebookresearch/fairchem 775: batches of ever other sizes fragment the cache": (
        NODES_OF_GRAPHS,
        lambda found: found["input_sizes"]["seen"] == 8 and found["reserved_but_unallocated"] > 0.5,
    ),
}


@pytest.mark.parametrize("report", FOUND)
def test_what_the_thread_found(report: str, tmp_path: Path) -> None:
    text, is_found = FOUND[report]
    assert is_found(report_of_text(tmp_path, text))


HEADS, TOKENS, WORDS = 12, 1944, 32000
RETAINED = f"""{STEP}
for _ in range(3):
    loss = model(torch.zeros(4096, 1024, device="cuda")).square().mean()
    loss.backward(EXTRA)
    optimizer.step()
    optimizer.zero_grad()
"""

MASK = f"""
import torch
q = torch.zeros(1, {HEADS}, {TOKENS}, 64, device="cuda", requires_grad=True)
mask = torch.zeros(1, {TOKENS}, {TOKENS}, device="cuda")[:, None]
EXTRA
torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).sum().backward()
"""

LOGITS = f"""
import torch
logits, ids = torch.zeros(1024, {WORDS}, device="cuda"), torch.zeros(1024, 1, dtype=torch.long, device="cuda")
EXTRA
"""

CASTS = """
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(16))).cuda()
with torch.no_grad(), torch.autocast("cuda", torch.float16, cache_enabled=EXTRA):
    model(torch.zeros(8, 2048, device="cuda"))
"""


@pytest.mark.parametrize(
    ("text", "wasteful", "mended", "saved"),
    [
        # ByteDance-Seed/Depth-Anything-3 268: a mask for each head, instead of a view of one
        (MASK, f"mask = mask.repeat(1, {HEADS}, 1, 1)", "", (HEADS - 1) * TOKENS**2 * 4),
        # huggingface/trl 2799: all log probabilities, to gather one per row
        (
            LOGITS,
            "logits.log_softmax(-1).gather(-1, ids)",
            "[row.log_softmax(-1).gather(-1, i) for row, i in zip(logits, ids)]",
            1023 * WORDS * 4,
        ),
        # ecmwf/anemoi-core 134: autocast caches the weights' casts, even without gradients
        (CASTS, "True", "False", 15 * 2048**2 * 2),
        # GBLin5566/toward-controlled-generation-of-text-pytorch 9: what the backward pass has used is not freed
        (RETAINED, "retain_graph=True", "", 2 * 16 * MIB),
    ],
)
def test_the_peak_goes_down_by_what_the_thread_found(
    text: str, wasteful: str, mended: str, saved: int, tmp_path: Path
) -> None:
    before, after = (
        report_of_text(tmp_path, text.replace("EXTRA", line))["peak_allocated_bytes"] for line in (wasteful, mended)
    )
    assert before - after == pytest.approx(saved, rel=0.02)


def test_reentrant_checkpointing_after_frozen_layers(tmp_path: Path) -> None:
    """huggingface/transformers 21381: no gradient reaches the blocks; the error is the script's, with its line."""
    file = tmp_path / "train.py"
    file.write_text(
        f"{STEP}\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "frozen = torch.nn.Linear(1024, 1024).requires_grad_(False).cuda()\n"
        "x = frozen(torch.zeros(64, 1024, device='cuda'))\n"
        "checkpoint(model, x, use_reentrant=True).mean().backward()\n"
    )
    code, _, err = phantom_run("--gpu", "rtx-3060", "--", "python", file)
    assert code == 2
    assert "train.py:13: RuntimeError: element 0 of tensors does not require grad" in err
