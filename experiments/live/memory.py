"""Memory of real steps on the phantom GPU: plain, checkpointed, and by plans in budgets. A CSV, and two tables.

Each row is a process of its own, on PyTorch's real caching allocator. Plans are made, tried and mended as by `coopsim
live plan`, and run as by `live run --plan`, under a cap of the budget. Overheads are predicted, by a roofline.

    python experiments/live/memory.py [MODEL...]     (all: some 20 minutes on two cores)
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from coopsim import phantom, text
from coopsim.cli import live_plan
from coopsim.live import plan_file
from coopsim.script import Script, guests

ROOT = Path(__file__).parent.parent.parent
TRAIN = str(Path(__file__).with_name("train.py"))
OUT = ROOT / "experiments" / "expected" / "live" / "memory.csv"
CARD = "a100-80gb"
ENDLESS = 1 << 40
MODELS = ("bert-large", "gpt-2", "resnet-50", "unet", "swin-t", "llama-1.1b")
SHARES = (70, 50, 30)
COLUMNS = (
    *("model", "how", "budget_bytes", "fits", "allocated_bytes", "reserved_bytes", "predicted_overhead"),
    *("lower_bound_bytes", "planned_steps", "steps", "replans", "why"),
)
Row = dict[str, Any]
SETTINGS = (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)


def guest(model: str, how: str = "plain", *, endless: bool = False, **told: Any) -> Row:
    """Run the script as `coopsim live` does, and give what it says."""
    card = {"memory_bytes": ENDLESS} if endless else {"variables": SETTINGS}
    script = Script(
        ("python", TRAIN, model, how), CARD, output=2, guest="coopsim.live.guest", told=json.dumps(told), **card
    )
    return max(guests(script), key=lambda one: int(one["steps"]))


def plain(model: str, how: str) -> Row:
    """Without a budget: peaks of the steps after the first."""
    environment = os.environ | phantom.environment(CARD, total_bytes=ENDLESS) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, TRAIN, model, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    found = json.loads(done.stdout.splitlines()[-1])
    return {"how": how, "fits": True, "allocated_bytes": found["allocated"], "reserved_bytes": found["reserved"]}


def recorded(model: str, how: str, folder: str) -> plan_file.PlanFile:
    """Its steps, in all the memory that they want."""
    path = str(Path(folder, how))
    guest(model, how, endless=True, save=path)
    return plan_file.load(path)


def cost(steps: plan_file.PlanFile) -> int:
    """Of a steady step, in ns."""
    return int(next(kind for kind in steps.kinds if not kind.first).trace.cost_ns.sum())


def by_plan(model: str, how: str, nbytes: int, steps: plan_file.PlanFile, folder: str) -> Row:
    """In so much, as `live plan` and then `live run --plan` do it."""
    path = str(Path(folder, "plan"))
    command = ["python", TRAIN, model]
    args = argparse.Namespace(
        action="plan", gpu=CARD, policy="foresight-offline", command=command, output=path, steps=0, json=True
    )
    args.traceback = False
    found, failed = live_plan.planned(args, steps, nbytes, search=False)
    row: Row = {"how": how, "budget_bytes": nbytes, "fits": found["fits"]}
    row |= {key: found[key] for key in ("lower_bound_bytes", "predicted_overhead")}
    row |= {f"{key}_bytes": found[f"peak_{key}_bytes"] for key in ("allocated", "reserved")}
    row["why"] = str(failed or next((k["unplanned"] for k in found["kinds"] if k["unplanned"]), ""))
    if found["fits"]:
        ran = guest(model, plan=path)
        row |= {key: ran[key] for key in ("planned_steps", "steps", "replans", "predicted_overhead")}
        row |= {f"{key}_bytes": ran[f"peak_{key}_bytes"] for key in ("allocated", "reserved")}
        row |= {"fits": not ran["failed"], "why": ran["failed"] or ran["deviated"]}
    return row


def rows(model: str) -> list[Row]:
    """All of a model."""
    found = [plain(model, how) for how in ("plain", "checkpoint", "selective")]
    with tempfile.TemporaryDirectory() as folder:
        steps = recorded(model, "plain", folder)
        for row in found[1:]:
            row["predicted_overhead"] = cost(recorded(model, row["how"], folder)) / cost(steps)
        full, checkpointed = found[:2]
        budgets = {f"live, {share} %": full["allocated_bytes"] * share // 100 for share in SHARES}
        budgets["live, what checkpoint reserves"] = checkpointed["reserved_bytes"]
        budgets["live, what checkpoint allocates"] = checkpointed["allocated_bytes"]
        budgets["live, half of what it allocates"] = checkpointed["allocated_bytes"] // 2
        found += [by_plan(model, how, nbytes, steps, folder) for how, nbytes in budgets.items()]
    return [dict.fromkeys(COLUMNS) | {"model": model} | row for row in found]


def main(models: list[str]) -> None:
    """Write what was found beside what the file has of other models, and print the tables."""
    known = list(csv.DictReader(OUT.open(encoding="utf-8"))) if OUT.exists() else []
    for model in models:
        new = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows(model)]
        known = sorted([r for r in known if r["model"] != model] + new, key=lambda r: MODELS.index(r["model"]))
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(known)
        print(f"{model}: done", file=sys.stderr, flush=True)
    print(table(known))


def table(known: list[dict[str, str]]) -> str:
    """In Markdown."""
    lines = [
        "| model | how | budget | allocated | reserved | reserved ÷ budget | predicted overhead |",
        "|" + " --- |" * 7,
    ]
    for r in known:
        mib = [
            f"{int(r[key]) >> 20}" if r[key] else "" for key in ("budget_bytes", "allocated_bytes", "reserved_bytes")
        ]
        fits = r["fits"] == "True"
        over = (
            f"{int(r['reserved_bytes']) / int(r['budget_bytes']):.3f}"
            if r["reserved_bytes"] and r["budget_bytes"]
            else ""
        )
        cost = f"{100 * (float(r['predicted_overhead']) - 1):.1f} %" if r["predicted_overhead"] and fits else ""
        if not fits:
            least, budget = int(r["lower_bound_bytes"] or 0), int(r["budget_bytes"])
            cost = f"does not fit: {text.human(least)} at least" if least > budget else "does not fit"
        lines.append("| " + " | ".join([r["model"], r["how"], *mib, over, cost]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["table"]:
        print(table(list(csv.DictReader(OUT.open(encoding="utf-8")))))
    else:
        main(sys.argv[1:] or list(MODELS))
