"""Train a reference model with Adam and deterministic algorithms, and write what its steps took: train.py MODEL OUT.

OUT is a JSON object: `step_ms`, `host_ms` (until the step's calls return) and `counters` of the allocator by step;
`bits`, a hash of all parameters and optimizer state; peaks; what the card holds beside what the allocator reserved; and
with --profile the GPU's time of one step by kernel and the host's by call of CUDA.
"""

import argparse
import gc
import hashlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

from coopsim.record.capture import models

_COUNTERS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
_MOST = 14  #: rows of a profile


def optimizers() -> list[torch.optim.Optimizer]:
    """Those that are alive; by type, as asking an object of its class may run code of its own."""
    return [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]


def bits(found: list[torch.optim.Optimizer]) -> str:
    """A hash of all parameters and of what the optimizers keep for each."""
    digest = hashlib.sha256()
    for parameter in (p for one in found for group in one.param_groups for p in group["params"]):
        state = next((one.state[parameter] for one in found if parameter in one.state), {})
        for tensor in (parameter, *(value for value in state.values() if torch.is_tensor(value))):
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def outside() -> int:
    """Bytes that the card has in use beside what the allocator reserved."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def profiled(step: Any) -> dict[str, Any]:
    """One step under the profiler: us of kernels, in all and by name; calls of CUDA: how many, us."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    kernels, number, calls = Counter[str](), Counter[str](), Counter[str]()
    for event in seen.events():
        took = event.time_range.end - event.time_range.start
        if "CUDA" in str(event.device_type):
            kernels[event.name[:70]] += 0 if event.name.startswith("Optimizer.") else took  # a range of kernels
        elif event.name.startswith("cu"):
            number[event.name] += 1
            calls[event.name] += took
    runtime = {name: [number[name], us] for name, us in calls.most_common(_MOST)}
    return {"gpu_us": sum(kernels.values()), "kernels": kernels.most_common(_MOST), "runtime": runtime}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--profile", action="store_true", help="profile the last but one step")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    kind = models.get(args.model)
    step = kind.build(kind.setting(args.batch, optimizer="adam"))
    found: dict[str, Any] = {"step_ms": [], "host_ms": [], "counters": []}
    allocated = reserved = 0
    for i in range(args.steps):
        if args.profile and i == args.steps - 2:
            found["profile"] = profiled(step)
            continue
        torch.cuda.synchronize()
        begun = time.perf_counter()
        step()
        found["host_ms"].append(round(1e3 * (time.perf_counter() - begun), 2))
        torch.cuda.synchronize()
        found["step_ms"].append(round(1e3 * (time.perf_counter() - begun), 2))
        stats = torch.cuda.memory_stats()
        found["counters"].append([stats.get(key, 0) for key in _COUNTERS])
        allocated = max(allocated, torch.cuda.max_memory_allocated())
        reserved = max(reserved, torch.cuda.max_memory_reserved())
    found |= {"counter_names": _COUNTERS, "bits": bits(optimizers()), "outside_bytes": outside()}
    found |= {"max_allocated": allocated, "max_reserved": reserved, "retries": found["counters"][-1][0]}
    args.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
