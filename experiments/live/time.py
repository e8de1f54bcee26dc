"""Measured against predicted overhead of live steps on the CPU, beside steps without a budget, in one process each.

    python experiments/live/time.py [MODEL...]     # writes experiments/expected/live/time.csv (ten minutes)

A case is a model under a policy in a budget. Op times are the medians of five recorded steps. Then plain steps,
checkpointed ones and those by plan take turns; each is timed by the processor time of the process, one thread, so that
other programs on the machine matter little. A row has the median and the quartiles of what a pair of steps differs by.
"""

import contextlib
import csv
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coopsim import phantom

ROOT = Path(__file__).parent.parent.parent
OUT = ROOT / "experiments" / "expected" / "live" / "time.csv"
POLICIES = ("foresight-offline", "coop", "dte")
SHARES = ("70%", "50%", "checkpoint")  #: of the plain step's peak; the last: what checkpointing all blocks takes
SAMPLES, PAIRS = 5, 9
#: The C library keeps what is freed, as GPU allocators do, so that no step asks the system for pages again.
KEEP = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
Model = tuple[Any, Callable[[bool], Any]]


def transformer() -> Model:
    """Four layers of PyTorch's."""
    import torch
    from torch import nn

    layers = nn.ModuleList(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(4))
    x = torch.randn(4, 128, 256)
    return layers, lambda checkpointed: _through(layers, x, checkpointed).square().mean()


def perceptron() -> Model:
    """Wide layers with cheap activations between them."""
    import torch
    from torch import nn

    layers = nn.ModuleList(
        nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(6)
    )
    x = torch.randn(1024, 256)
    return layers, lambda checkpointed: _through(layers, x, checkpointed).square().mean()


def residual() -> Model:
    """Convolutions with batch norm: a small ResNet of one width."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = (nn.Conv2d(32, 32, 3, padding=1, bias=False) for _ in range(2))
            self.first, self.second = nn.BatchNorm2d(32), nn.BatchNorm2d(32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.second(self.two(torch.relu(self.first(self.one(x))))) + x)

    layers = nn.ModuleList(Block() for _ in range(6))
    x = torch.randn(4, 32, 32, 32)
    return layers, lambda checkpointed: _through(layers, x, checkpointed).square().mean()


def gpt() -> Model:
    """GPT-2 of four blocks of width 256, as in transformers."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=256, n_layer=4, n_head=4)
    model = GPT2LMHeadModel(config).train()
    words = torch.randint(0, 1000, (4, 128))

    def loss(checkpointed: bool) -> Any:
        if checkpointed:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            model.gradient_checkpointing_disable()
        return model(input_ids=words, labels=words).loss

    return model, loss


def _through(layers: Any, x: Any, checkpointed: bool) -> Any:
    from torch.utils.checkpoint import checkpoint

    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False) if checkpointed else layer(x)
    return x


MODELS: dict[str, Callable[[], Model]] = {
    "transformer": transformer,
    "perceptron": perceptron,
    "residual": residual,
    "gpt": gpt,
}


def measure(name: str) -> list[dict[str, Any]]:
    """In the child: all cases of a model."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, loss = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step(checkpointed: bool = False) -> None:
        loss(checkpointed).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    plain, checkpointed = peak(step), peak(lambda: step(True))
    costs = op_times(step)
    rows = []
    for share in SHARES:
        nbytes = checkpointed if share == "checkpoint" else plain * int(share[:-1]) // 100
        cases = {policy: budget for policy in POLICIES if (budget := ready(policy, nbytes, step, costs))}
        rows += race(name, share, nbytes, cases, step)
    for row in rows:
        row["plain_bytes"] = plain
    return rows


def peak(step: Callable[[], None]) -> int:
    """Bytes that a step has at most, with all that is there before it, as a budget counts them."""
    import coopsim.live

    budget = coopsim.live.Budget("1TiB", device="cpu")
    for _ in range(2):
        with budget.step():
            step()
    return int(budget.report()["peak_allocated_bytes"])


def op_times(step: Callable[[], None]) -> Any:
    """Nanoseconds of each op: medians of several recorded steps."""
    import numpy as np

    import coopsim.live

    costs = []
    for _ in range(SAMPLES):
        budget = coopsim.live.Budget("1TiB", device="cpu")
        with budget.step():
            step()
        costs.append(budget.session.known.signatures[0].trace.cost_ns)
    return np.median(costs, axis=0).astype(np.int64)


def ready(policy: str, nbytes: int, step: Callable[[], None], costs: Any) -> Any:
    """A budget whose steps go by a plan that was made with these times; None if there is no plan."""
    import coopsim.live
    from coopsim.live.op_log import StepRecorder

    budget = coopsim.live.Budget("1TiB", policy, device="cpu")
    own = StepRecorder.trace

    def with_medians(recorder: StepRecorder) -> Any:
        trace = own(recorder)
        assert len(trace.cost_ns) == len(costs)
        trace.cost_ns[:] = costs
        return trace

    StepRecorder.trace = with_medians  # type: ignore[method-assign]
    try:
        with budget.step():
            step()
    finally:
        StepRecorder.trace = own  # type: ignore[method-assign]
    (kind,) = budget.session.known.signatures
    budget.session.planning.rebudget(nbytes, [kind])
    if kind.plan is None:
        return None
    for _ in range(3):
        with budget.step():
            step()
    return budget


def race(
    name: str, share: str, nbytes: int, budgets: dict[str, Any], step: Callable[..., None]
) -> list[dict[str, Any]]:
    """Steps of all kinds in turns."""
    times: dict[str, list[float]] = {}
    runners: dict[str, Callable[[], Any]] = {"plain": contextlib.nullcontext, "checkpoint": contextlib.nullcontext}
    runners |= {policy: budget.step for policy, budget in budgets.items()}
    before = {policy: budget.report() for policy, budget in budgets.items()}
    gc.collect()
    gc.disable()
    for _ in range(PAIRS):
        for what, around in runners.items():
            start = time.process_time()
            with around():
                step(what == "checkpoint")
            times.setdefault(what, []).append(time.process_time() - start)
        gc.collect()
    gc.enable()
    rows = []
    for what in ("checkpoint", *budgets):
        added = sorted(100 * (a / b - 1) for a, b in zip(times[what], times["plain"], strict=True))
        row: dict[str, Any] = {"model": name, "budget": share, "policy": what, "budget_bytes": nbytes}
        row["plain_ms"] = round(1e3 * statistics.median(times["plain"]), 1)
        quartiles = statistics.quantiles(added, n=4)
        row |= {
            "measured_percent": round(quartiles[1], 1),
            "from": round(quartiles[0], 1),
            "to": round(quartiles[2], 1),
        }
        if what in budgets:
            report = budgets[what].report()
            planned = report["planned_steps"] - before[what]["planned_steps"]
            recomputes = (report["recomputes"] - before[what]["recomputes"]) / PAIRS
            row |= {"planned": planned == PAIRS, "recomputes": round(recomputes), "observer": not report["no_observer"]}
            if report["predicted_overhead"] is not None:
                row["predicted_percent"] = round(100 * (report["predicted_overhead"] - 1), 1)
        rows.append(row)
    return rows


FIELDS = (
    *("model", "budget", "policy", "plain_bytes", "budget_bytes", "plain_ms", "predicted_percent", "measured_percent"),
    *("from", "to", "planned", "recomputes", "observer"),
)


def main(models: list[str]) -> None:
    """Measure, print and write the rows."""
    environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)} | KEEP
    rows = []
    for model in models:
        done = subprocess.run(  # noqa: S603
            [sys.executable, __file__, "measure", model], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        rows += json.loads(done.stdout.splitlines()[-1])
        for row in rows[-12:]:
            print(*(row.get(field, "") for field in FIELDS), flush=True)
    if models == list(MODELS):
        OUT.parent.mkdir(exist_ok=True)
        with OUT.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    off = [abs(row["measured_percent"] - row["predicted_percent"]) for row in rows if "predicted_percent" in row]
    print(f"measured less predicted, in points: median {statistics.median(off):.1f}, at most {max(off):.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(sys.argv[1:] or list(MODELS))
