"""Does offload in live give the same bits on a physical GPU, in the memory and about the time that were predicted?

A transformer with Adam: plain, in half its memory by recomputation, and in the same with offload. Prints one line each;
exits with 1 if bits differ, nothing was offloaded, or more was reserved than 1.02 times the budget.

    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python experiments/gpu/offload.py
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # without an installation

from coopsim.live import Budget

STEPS, WARM = 12, 6
WIDTH, WORDS, BATCH, LAYERS = 1024, 512, 16, 12


def train(memory: str | None, *, offload: bool = False) -> tuple[list[bytes], dict[str, Any]]:
    """The bits of all parameters after some steps, and the figures of the last ones."""
    model, step = build()
    budget = Budget(memory, offload=offload) if memory else None
    begun = 0.0
    for i in range(STEPS):
        if i == WARM:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            begun = time.perf_counter()
        if budget is None:
            step()
        else:
            with budget.step():
                step()
    torch.cuda.synchronize()
    said: dict[str, Any] = {"step_ms": 1000 * (time.perf_counter() - begun) / (STEPS - WARM)}
    said |= budget.report() if budget else {"peak": torch.cuda.max_memory_allocated()}
    return [p.detach().cpu().numpy().tobytes() for p in model.parameters()], said


def build() -> tuple[nn.Module, Callable[[], None]]:
    """The model, and a step of its training."""
    torch.manual_seed(0)
    layers = (nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True) for _ in range(LAYERS))
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(BATCH, WORDS, WIDTH, device="cuda")

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def main() -> int:
    """Run all three with kernels that sum in a constant order, and judge."""
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    with sdpa_kernel(SDPBackend.MATH):  # the backward passes of the others sum in no constant order
        return compared()


def compared() -> int:
    """Train all three ways, and print how they compare. 0 if nothing is wrong."""
    wanted, plain = train(None)
    print(f"plain: {plain['step_ms']:.1f} ms, {plain['peak'] >> 20} MiB", flush=True)
    memory = f"{plain['peak'] // 2}B"
    good = True
    for name, offload in (("recomputing", False), ("offload", True)):
        torch.cuda.empty_cache()
        bits, said = train(memory, offload=offload)
        ratio = said["peak_reserved_bytes"] / said["budget_bytes"]
        keys = ("predicted_overhead", "planned_steps", "recomputes", "offloads", "offloaded_bytes", "host_bytes")
        more = {key: said[key] for key in (*keys, "no_offload", "unplanned", "deviated")}
        took = f"{said['step_ms']:.1f} ms ({said['step_ms'] / plain['step_ms'] - 1:+.1%})"
        print(f"{name}: same bits {bits == wanted}, {took}, reserved over budget {ratio:.3f}, {more}", flush=True)
        good = good and bits == wanted and ratio <= 1.02 and (said["offloads"] > 0 or not offload)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
