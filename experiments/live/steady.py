"""How long steps by plan go on to take memory from the GPU and give it back, and what it costs that they no longer do.

A process per model, on PyTorch's real caching allocator with expandable segments, on the phantom GPU (an H100), in half
of what the step takes; in 70 % where half has no plan. It writes a CSV.

    python experiments/live/steady.py [MODEL...]
"""

import csv
import itertools
import json
import os
import subprocess
import sys
from typing import Any

from memory import MODELS, POLICY, ROOT, SETTINGS

from coopsim import phantom
from coopsim.base import files

OUT = ROOT / "experiments" / "expected" / "live" / "steady.csv"
CARD, SHARES, STEPS = "h100-80gb", (50, 70), 36
LAST = 8  #: steps at the end
COLUMNS = (
    *("model", "share", "steps", "planned_steps", "replans", "steady_after", "calls_before", "calls_last"),
    *("retries_last", "first_overhead", "overhead", "margin", "budget_bytes", "reserved_bytes", "why"),
)
COUNTS = ("num_device_alloc", "num_device_free")
Row = dict[str, Any]


def measure(model: str, share: int) -> Row:
    """In the child. Calls are of the driver, for memory; overheads are the GPU's; reserved bytes of the last steps."""
    import torch

    from coopsim.live.budget import Budget
    from coopsim.live.errors import LiveError
    from experiments.live import train

    budget, step = Budget(f"{share}%", POLICY), train.build(model)
    calls, retries, overheads = [0], [0], list[float]()
    row: Row = {"model": model, "share": share}
    try:
        for i in range(STEPS):
            if i == STEPS - LAST:
                torch.cuda.reset_peak_memory_stats()
            with budget.step():
                step()
            stats, time = torch.cuda.memory_stats(), budget.session.time()
            calls.append(sum(stats[name] for name in COUNTS))
            retries.append(stats["num_alloc_retries"])
            overheads += [time.gpu_overhead] if time else []
    except (LiveError, torch.OutOfMemoryError) as error:
        return row | {"why": str(error).splitlines()[0]}
    each = [b - a for a, b in itertools.pairwise(calls)]
    after = max((i for i, n in enumerate(each, 1) if n), default=0)
    state, report = budget.session.known.signatures[-1].state, budget.report()
    before = each[3:after]
    return row | {
        "steps": STEPS,
        "planned_steps": report["planned_steps"],
        "replans": report["replans"],
        "steady_after": after,
        "calls_before": round(sum(before) / len(before), 1) if before else 0,
        "calls_last": calls[-1] - calls[-1 - LAST],
        "retries_last": retries[-1] - retries[-1 - LAST],
        "first_overhead": overheads[0] if overheads else None,
        "overhead": overheads[-1] if overheads else None,
        "margin": state.margin / (budget.session.limit or 1),
        "budget_bytes": budget.session.limit,
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "why": report["unplanned"],
    }


def said(model: str, share: int) -> Row:
    """What a child finds."""
    variables = phantom.environment(CARD) | {"PYTHONPATH": str(ROOT), "PYTORCH_CUDA_ALLOC_CONF": SETTINGS}
    command = [sys.executable, __file__, "measure", model, str(share)]
    done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def main(models: list[str]) -> None:
    """Write what was found beside what the file has of other models, row by row."""
    known = list(csv.DictReader(OUT.open(encoding="utf-8"))) if OUT.exists() else []
    for model in models:
        for share in SHARES:
            row = said(model, share)
            if not row["why"]:
                break
        new = {key: "" if row.get(key) is None else str(row[key]) for key in COLUMNS}
        known = sorted([*(r for r in known if r["model"] != model), new], key=lambda r: MODELS.index(r["model"]))
        with files.replacing(OUT) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(known)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", model, share]:
            print(json.dumps(measure(model, int(share))), flush=True)
        case models:
            main(models or list(MODELS))
