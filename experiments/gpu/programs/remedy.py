"""Run examples/train.py with a remedy that `coopsim fit` printed, and time its steps: remedy.py VARIANT OUT.

VARIANT: plain, checkpointing (11 of 16 blocks), weights (bfloat16) or precision (autocast). OUT: as train.py's.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

SCRIPT = Path(__file__).parents[3] / "examples" / "train.py"
_LOOP, _OPTIMIZER = "for _ in range(3):\n", "optimizer = torch"
#: What `fit --gpu h100-80gb --memory 12GiB` printed; before the optimizer, or before the loop.
REMEDIES = {
    "plain": (_LOOP, ""),
    "weights": (_OPTIMIZER, "model.to(torch.bfloat16)\n"),
    "precision": (_LOOP, 'model.forward = torch.autocast("cuda", dtype=torch.bfloat16)(model.forward)\n'),
    "checkpointing": (
        _LOOP,
        "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing\n"
        "chosen = {*model.layers[:11]}\n"
        "apply_activation_checkpointing(model, check_fn=lambda module: module in chosen)\n",
    ),
}


class Clock:
    """Is called when each step begins, and at the end."""

    def __init__(self) -> None:
        self.step_ms: list[float] = []
        self.allocated = self.reserved = 0
        self._begun: float | None = None

    def __call__(self) -> None:
        torch.cuda.synchronize()
        now = time.perf_counter()
        if self._begun is not None:
            self.step_ms.append(round(1e3 * (now - self._begun), 2))
        self._begun = now
        self.allocated = max(self.allocated, torch.cuda.max_memory_allocated())
        self.reserved = max(self.reserved, torch.cuda.max_memory_reserved())


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("variant", choices=REMEDIES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    where, lines = REMEDIES[args.variant]
    text = SCRIPT.read_text(encoding="utf-8").replace(where, lines + where, 1)
    text = text.replace(_LOOP, f"for _ in range({args.steps}):\n    clock()\n", 1)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    clock = Clock()
    space: dict[str, Any] = {"clock": clock, "__name__": "__main__"}
    sys.argv = ["train.py", "--batch", str(args.batch)]
    exec(compile(text, str(SCRIPT), "exec"), space)  # noqa: S102
    clock()
    digest = hashlib.sha256()
    for parameter in space["model"].parameters():
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    free, total = torch.cuda.mem_get_info()
    found = {"step_ms": clock.step_ms, "bits": digest.hexdigest()[:16], "max_reserved": clock.reserved}
    found |= {"max_allocated": clock.allocated, "outside_bytes": total - free - torch.cuda.memory_reserved()}
    found["retries"] = torch.cuda.memory_stats().get("num_alloc_retries")
    args.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
