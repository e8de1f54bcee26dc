"""Memory of real steps on the phantom GPU: plain, checkpointed, by plans in budgets. A CSV, and the page's tables.

A process per model, on PyTorch's real caching allocator with expandable segments. Plans are made, tried with a new
model and replanned as by `coopsim live plan`; figures are those of the last try, from its first step on, under a cap
of the budget. Overheads are predicted: by prices of ops on the card, from recorded steps.

`arena`: the same budgets of live once more, each in an arena, in a process of its own.

    python experiments/live/memory.py [MODEL...]
    python experiments/live/memory.py arena [MODEL...]
    python experiments/live/memory.py table
"""

import csv
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_tables import ARENA, HOW, LIVE, ONLY_BESIDE, SHARES, table

from coopsim import phantom
from experiments.common.pages import write_section

ROOT = Path(__file__).parent.parent.parent
OUT = ROOT / "experiments" / "expected" / "live" / "memory.csv"
CARD, SETTINGS, POLICY = "a100-80gb", "expandable_segments:True", "foresight-offline"
MODELS = ("bert-large", "gpt-2", "resnet-50", "unet", "swin-t", "llama-1.1b", "vit-b", "t5-base")
CAPPED = "checkpoint, what it allocates"  #: no row of the page's tables
TRIES = 6  #: of a plan, as many as coopsim live plan makes
COLUMNS = (
    *("model", "how", "budget_bytes", "fits", "allocated_bytes", "reserved_bytes", "predicted_overhead"),
    *("lower_bound_bytes", "tries", "steps", "planned_steps", "recomputes", "allocator_retries", "why"),
)
Row = dict[str, Any]


def recorded(model: str, path: str, arena: Any = None) -> Any:
    """Three steps without a budget, the first one included."""
    from coopsim.live import plan_file
    from coopsim.live.session import TrainingSession
    from experiments.live import train

    session, step = TrainingSession(None, POLICY, arena=arena), train.build(model)
    for _ in range(3):
        session.begin()
        step()
        session.end()
    session.learner.save(path, model)
    return plan_file.load(path)


def cost(steps: Any) -> int:
    """Of a steady step, in ns."""
    return int(steps.signatures[-1].trace.cost_ns.sum())


def by_plan(model: str, nbytes: int, steps: Any, path: str) -> Row:
    """In so much; in an arena, if the steps were recorded in one."""
    from coopsim.live import make, plan_file

    steps = replace(steps, budget_bytes=nbytes)
    how = {"search": False, "arena": steps.arena}
    made = [make.make(kind, POLICY, nbytes, steps.others_bytes, **how) for kind in steps.signatures]
    row: Row = {"budget_bytes": nbytes, "fits": False, "lower_bound_bytes": max(m.least.nbytes for m in made)}
    why = next((m.signature.state.why for m in made if m.signature.state.why), "")
    if why:
        return row | {"why": why}
    plan_file.save(replace(steps, signatures=[m.signature for m in made]), path)
    for k in range(TRIES):
        ran = tried(model, path, arena=steps.arena)
        row |= ran | {"tries": k + 1}
        if not row.pop("replans"):
            break
    return row | {"fits": not row["why"] and row["reserved_bytes"] <= nbytes}


def tried(model: str, path: str, *, arena: bool) -> Row:
    """Six steps of a new model by a plan, which is replanned."""
    import torch

    from coopsim.live.arena.library import Arena
    from coopsim.live.budget import Budget, offer
    from coopsim.live.session import TrainingSession
    from experiments.live import train

    offer(lambda: TrainingSession(None, POLICY, plan=path, arena=Arena() if arena else None, tries=True))
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_stats().get("num_alloc_retries", 0)
    budget, step = Budget(plan=path), train.build(model)
    why = ""
    try:
        for _ in range(train.STEPS):
            with budget.step():
                step()
    except (torch.OutOfMemoryError, RuntimeError) as error:
        why = str(error).splitlines()[0]
    budget.session.learner.save(path, model)
    found = budget.report()
    keys, time = ("steps", "planned_steps", "recomputes", "replans"), budget.session.time()
    row = {"predicted_overhead": time.gpu_overhead if time else None} | {key: found[key] for key in keys}
    row |= {f"{k}_bytes": found[f"peak_{k}_bytes"] for k in ("allocated", "reserved")}
    return row | {"allocator_retries": torch.cuda.memory_stats()["num_alloc_retries"] - before, "why": why}


def capped(model: str, nbytes: int) -> Row:
    """The checkpointed program, whose allocator may have so much."""
    import torch

    from coopsim.base.budget import memory_fraction
    from experiments.live import train

    total, why = torch.cuda.get_device_properties(0).total_memory, ""
    row: Row = {"budget_bytes": nbytes}
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(memory_fraction(nbytes, total))
    try:
        with train.blocks(model, "checkpoint"):
            row |= train.peaks(model)
    except torch.OutOfMemoryError as error:
        why = str(error).split(". GPU")[0]
    torch.cuda.set_per_process_memory_fraction(1.0)
    return row | {"fits": not why, "why": why}


def measure(model: str) -> None:
    """In the child: all rows of a model, as they come."""
    import torch

    from experiments.live import train

    found: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder:
        steps: dict[str, Any] = {}
        for how in HOW:
            with train.blocks(model, how):
                row = train.peaks(model)
                gc.collect()
                torch.cuda.empty_cache()
                steps[how] = recorded(model, str(Path(folder, how)))
            row |= {"fits": True, "predicted_overhead": cost(steps[how]) / cost(steps["plain"])}
            found[how] = row
            say(model, how, row)
        full, checkpointed = (found[how] for how in HOW[:2])
        say(model, CAPPED, capped(model, checkpointed["allocated_bytes"]))
        shares = () if model in ONLY_BESIDE else SHARES
        budgets = {f"live, {share} %": full["allocated_bytes"] * share // 100 for share in shares}
        budgets["live, what checkpoint reserves"] = checkpointed["reserved_bytes"]
        budgets["live, what checkpoint allocates"] = checkpointed["allocated_bytes"]
        budgets["live, half of what it allocates"] = checkpointed["allocated_bytes"] // 2
        for how, nbytes in budgets.items():
            say(model, how, by_plan(model, nbytes, steps["plain"], str(Path(folder, "plan"))))


def in_arena(model: str, nbytes: int, path: str) -> None:
    """In the child: a row of a model. No bytes: its steps are recorded in an arena of all memory, for the others."""
    from coopsim.live import plan_file
    from coopsim.live.arena.library import Arena, install

    install(nbytes)
    if not nbytes:
        recorded(model, path, Arena())
        return
    with tempfile.TemporaryDirectory() as folder:
        say(model, ARENA, by_plan(model, nbytes, plan_file.load(path), str(Path(folder, "plan"))))


def say(model: str, how: str, row: Row) -> None:
    """To the parent."""
    print(json.dumps(dict.fromkeys(COLUMNS) | {"model": model, "how": how} | row), flush=True)


def main(models: list[str]) -> None:
    """Write what was found beside what the file has of other models, row by row, and put the tables into their page."""
    known = read()
    for model in models:
        known = [r for r in known if r["model"] != model or r["how"].startswith(ARENA)]
        for row in said("measure", model):
            add(known, row)
    put(known)


def arenas(models: list[str]) -> None:
    """The same, of the budgets that the file has of live."""
    known = read()
    for model in models:
        budgets = {r["how"]: r["budget_bytes"] for r in known if r["model"] == model and r["how"].startswith(LIVE)}
        known = [r for r in known if r["model"] != model or not r["how"].startswith(ARENA)]
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "recorded"))
            list(said("in-arena", model, "0", path))
            for how, nbytes in budgets.items():
                for row in said("in-arena", model, nbytes, path):
                    add(known, row | {"how": how.replace(LIVE, ARENA)})
    put(known)


def said(*words: str) -> Iterator[Row]:
    """What a child prints, row by row."""
    variables = phantom.environment(CARD) | {"PYTHONPATH": str(ROOT), "PYTORCH_CUDA_ALLOC_CONF": SETTINGS}
    command = [sys.executable, __file__, *words]
    with subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603
        assert child.stdout is not None
        yield from map(json.loads, child.stdout)


def add(known: list[dict[str, str]], row: Row) -> None:
    """To what the file has."""
    known.append({key: "" if row[key] is None else str(row[key]) for key in COLUMNS})
    known.sort(key=lambda r: MODELS.index(r["model"]))
    write(known)


def put(known: list[dict[str, str]]) -> None:
    """The table into its page."""
    write_section("live tables", table(known))


def read() -> list[dict[str, str]]:
    """What the file has."""
    return list(csv.DictReader(OUT.open(encoding="utf-8"))) if OUT.exists() else []


def write(known: list[dict[str, str]]) -> None:
    """All of it."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(known)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", model]:
            measure(model)
        case ["in-arena", model, nbytes, path]:
            in_arena(model, int(nbytes), path)
        case ["arena", *models]:
            arenas(models or list(MODELS))
        case ["table"]:
            put(read())
        case models:
            main(models or list(MODELS))
