"""The least memory in which a model trains, bisected on the GPU.

Usage: python -m experiments.gpu.stage_smallest MODEL FOLDER [BATCH].

First the model is built and trained for some steps with no limit, while the allocator writes its history; then the
same again under torch.cuda.set_per_process_memory_fraction, to 2 MiB. Each try begins with an empty cache. The limit
is on what the allocator reserves; the context is not in it.
"""

import gc
import pickle
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coopsim.base import files
from coopsim.base.budget import memory_fraction
from coopsim.record.capture import models
from experiments.gpu import machine, names

_STEPS = 2
_GRAIN = 2 << 20
_KEYS = ("action", "addr", "size", "stream", "device_free")


def _empty() -> int:
    """Give all memory back. The bytes that stay reserved.

    A thread of a backward pass that ran out of memory may let go of its tensors a moment after the exception.
    """
    for _ in range(10):
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        left = torch.cuda.memory_reserved()
        if left == 0:
            break
        time.sleep(0.1)
    return left


def attempt(model: str, batch: int | None, limit: int | None, *, history: bool = False) -> dict[str, Any]:
    """Build and train from an empty cache; whether it fits, and the peaks. `history`: write it, too."""
    left = _empty()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(1.0 if limit is None else memory_fraction(limit, total))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["num_ooms"]
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    if history:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2**24)
    fits = True
    try:
        kind = models.get(model)
        step = kind.build(kind.setting(batch))
        for _ in range(_STEPS):
            step()
        torch.cuda.synchronize()
        del step
    except torch.OutOfMemoryError:
        fits = False
    stats = torch.cuda.memory_stats()
    return {
        "limit_bytes": limit,
        "fits": fits,
        "ooms": stats["num_ooms"] - before,  # a convolution that finds no memory tries an algorithm that needs less
        "left_bytes": left,
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
    }


def snapshot(start: dict[str, Any]) -> dict[str, Any]:
    """The allocator's segments and history, without stacks, with the machine. Ends the history."""
    found = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    trace = [{k: e[k] for k in _KEYS if k in e} for e in found["device_traces"][torch.cuda.current_device()]]
    for segment in found["segments"]:
        segment.pop("frames", None)
        for block in segment["blocks"]:
            block.pop("frames", None)
            block.pop("history", None)
    slim = {"segments": found["segments"], "device_traces": [trace], "machine": start}
    slim["allocator_settings"] = found.get("allocator_settings", {})
    return slim


def main(model: str, folder: Path, batch: int | None) -> None:
    start = machine.facts()
    torch.backends.cuda.matmul.allow_tf32 = True
    attempt(model, batch, None)  # the first use of a library takes memory for good
    free = attempt(model, batch, None, history=True)
    history = snapshot(start)
    tries = [free]
    low, high = free["peak_allocated_bytes"] // _GRAIN, -(-free["peak_reserved_bytes"] // _GRAIN)
    while low < high:
        middle = (low + high) // 2
        tries.append(attempt(model, batch, middle * _GRAIN))
        if tries[-1]["fits"]:
            high = middle
        else:
            low = middle + 1
    confirmed = [attempt(model, batch, (high + k) * _GRAIN) for k in (0, -1)]
    # Both at the end, so that they are of one run.
    with files.replacing(folder / names.snapshot(model)) as part, part.open("wb") as file:
        pickle.dump(history, file, protocol=4)
    found = {"model": model, "steps": _STEPS, "smallest_bytes": high * _GRAIN, "tries": tries, "confirmed": confirmed}
    machine.write(folder / names.smallest(model), found, start)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
