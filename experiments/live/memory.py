"""Memory of real steps on the phantom GPU: plain, checkpointed, and inside budgets. A table in Markdown.

Each row is a process of its own, on PyTorch's real caching allocator: three steps, then three whose peaks count.

    python experiments/live/memory.py [MODEL...]
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from coopsim import phantom

ROOT = Path(__file__).parent.parent.parent
SHARES = (70, 50, 30)
STEPS, WARM = 6, 3  #: inside a budget the first two are recorded


def bert_large(checkpoint: bool) -> tuple[Any, Any]:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    model = BertForSequenceClassification(config).cuda().train()
    return _with(model, checkpoint, {"input_ids": (8, 512), "labels": (8,)}, torch)


def gpt_2(checkpoint: bool) -> tuple[Any, Any]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda().train()
    return _with(model, checkpoint, {"input_ids": (8, 1024), "labels": (8, 1024)}, torch)


def transformer_8(checkpoint: bool) -> tuple[Any, Any]:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint as checkpointed

    layers = [nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(8)]
    model = nn.ModuleList([nn.Embedding(1000, 512), *layers, nn.Linear(512, 10)]).cuda()
    words = torch.zeros(32, 512, dtype=torch.long, device="cuda")

    def loss() -> Any:
        x = model[0](words)
        for layer in layers:
            x = checkpointed(layer, x, use_reentrant=False) if checkpoint else layer(x)
        return nn.functional.cross_entropy(model[-1](x.mean(1)), words[:, 0])

    return model, loss


def _with(model: Any, checkpoint: bool, sizes: dict[str, tuple[int, ...]], torch: Any) -> tuple[Any, Any]:
    if checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    batch = {name: torch.zeros(size, dtype=torch.long, device="cuda") for name, size in sizes.items()}
    return model, lambda: model(**batch).loss


MODELS = {"transformer-8": transformer_8, "bert-large": bert_large, "gpt-2": gpt_2}


def measure(model: str, how: str) -> dict[str, Any]:
    """In the child. how: plain, checkpoint, or a budget in bytes."""
    import contextlib

    import torch

    import coopsim.live

    torch.manual_seed(0)
    module, loss_of = MODELS[model](how == "checkpoint")
    optimizer = torch.optim.Adam(module.parameters())
    nbytes = int(how) if how.isdecimal() else None
    budget = coopsim.live.Budget(f"{nbytes}B") if nbytes else None
    found = {"allocated": 0, "reserved": 0}
    for i in range(STEPS):
        if i == WARM:
            torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        with budget.step() if budget else contextlib.nullcontext():
            loss_of().backward()
            optimizer.step()
            optimizer.zero_grad()
        if i >= WARM:
            found["allocated"] = max(found["allocated"], torch.cuda.max_memory_allocated())
            found["reserved"] = max(found["reserved"], torch.cuda.max_memory_reserved())
    return found | (budget.report() if budget else {})


def child(model: str, how: str) -> dict[str, Any] | str:
    """A row; why there is none."""
    environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, "measure", model, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:100]
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def main(models: list[str]) -> None:
    """Print the table, a row as soon as it is there."""
    print("| model | how | budget, MiB | allocated | reserved | reserved ÷ budget | predicted overhead |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for model in models:
        plain = child(model, "plain")
        assert isinstance(plain, dict), plain
        cases = [("plain", plain), ("checkpoint", child(model, "checkpoint"))]
        cases += [(f"live {s} %", child(model, str(plain["allocated"] * s // 100))) for s in SHARES]
        for how, row in cases:
            print(line(model, how, row), flush=True)


def line(model: str, how: str, row: dict[str, Any] | str) -> str:
    """A row of the table."""
    if isinstance(row, str):
        return f"| {model} | {how} | | | | | {row} |"
    cells = [f"{row[key] / 2**20:.0f}" for key in ("allocated", "reserved")]
    if "budget_bytes" not in row:
        return f"| {model} | {how} | | {cells[0]} | {cells[1]} | | |"
    over = f"{row['reserved'] / row['budget_bytes']:.3f}"
    predicted = f"{row['predicted_overhead'] - 1:.1%}" if row["predicted_overhead"] else row["unplanned"]
    return f"| {model} | {how} | {row['budget_bytes'] / 2**20:.0f} | {cells[0]} | {cells[1]} | {over} | {predicted} |"


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main(sys.argv[1:] or list(MODELS))
