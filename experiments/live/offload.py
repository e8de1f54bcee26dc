"""Planned steps that may offload, beside those that recompute alone: on the phantom GPU, under a cap of the budget.

A process per model and card, on PyTorch's caching allocator with expandable segments. Plans are made, tried and
replanned as by `coopsim live plan`; peaks are those of six planned steps. Overheads are predicted by prices of ops on
the card; `clock_overhead` is the time of the last two steps by the phantom's clock, over that of steps that keep
everything, if both went by plan to their end (no other op takes time on it); `stall_ms`: how long ops waited for copies
in one of them; `retries`: how often the allocator gave memory back in both and took it again, for which the clock stops
the card, too.

    python experiments/live/offload.py [CARD:MODEL:SHARE...]
"""

import csv
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from by_clock import Clock, Host, timed
from memory import POLICY, ROOT, SETTINGS, TRIES, recorded

from coopsim import phantom

OUT = ROOT / "experiments" / "expected" / "live" / "offload.csv"
RUNS = [f"{card}:gpt-2:{share}" for card in ("rtx-3060", "a100-80gb") for share in (50, 30)]
RECOMPUTE, OFFLOAD = "recompute", "offload"
ENOUGH = 200 << 30  #: bytes of the phantom card, so that steps can be recorded on any
COLUMNS = (
    *("card", "model", "share", "how", "budget_bytes", "fits", "allocated_bytes", "reserved_bytes"),
    *("predicted_overhead", "clock_overhead", "stall_ms", "retries", "recomputes"),
    *("offloads", "offloaded_bytes", "host_bytes", "no_offload", "tries", "planning_s", "why"),
)
Row = dict[str, Any]


def by_plan(
    model: str, nbytes: int, steps: Any, path: str, how: str = RECOMPUTE, host: Host | None = None, link: str = ""
) -> Row:
    """In so much; with copies to the host where they are cheaper, or where nothing else fits.

    In an arena, if the steps were recorded in one. host: as of `timed`. link: as of Hosting.
    """
    from coopsim.live import make, plan_file
    from coopsim.live.host import Hosting

    hosting = None if how == RECOMPUTE else Hosting(link)
    steps = replace(steps, budget_bytes=nbytes, hosting=hosting)
    options: Row = {"search": False, "arena": steps.arena, "hosting": hosting}
    begun = time.perf_counter()
    made = [make.make(kind, POLICY, nbytes, steps.others_bytes, **options) for kind in steps.signatures]
    row: Row = {"budget_bytes": nbytes, "fits": False, "planning_s": round(time.perf_counter() - begun, 1)}
    why = next((m.signature.state.why for m in made if m.signature.state.why), "")
    if why:
        return row | {"why": why}
    plan_file.save(replace(steps, signatures=[m.signature for m in made]), path)
    for k in range(TRIES):
        ran = tried(model, path, arena=steps.arena, host=host)
        row |= ran | {"tries": k + 1}
        if not row.pop("replans"):
            break
    return row | {"fits": not row["why"] and row["reserved_bytes"] <= nbytes}


def tried(model: str, path: str, *, arena: bool, host: Host | None = None) -> Row:
    """Six steps of a new model by a plan, which is replanned."""
    import torch

    from coopsim.live.arena.library import Arena
    from coopsim.live.budget import Budget, offer
    from coopsim.live.session import TrainingSession
    from experiments.live import train

    def session() -> TrainingSession:
        own = Arena() if arena else None
        return TrainingSession(None, POLICY, plan=path, arena=own, tries=True)

    offer(session)
    gc.collect()
    torch.cuda.empty_cache()
    why = ""
    found: list[tuple[int, ...]] = [(0, 0, 0, 0, 0)]
    with timed(host) as clock:
        budget, step = Budget(plan=path), train.build(model)
        try:
            for _ in range(train.STEPS):
                with budget.step():
                    step()
                retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
                end = clock.end() if host else clock.now()  # its host may be ahead of the card
                found.append((end, clock.stall_ns, retries, budget.report()["planned_steps"], len(clock.copies)))
        except (torch.OutOfMemoryError, RuntimeError) as error:
            why = str(error).splitlines()[0]
    budget.session.learner.save(path, model)
    report = budget.report()
    time = budget.session.time()
    keys = ("recomputes", "offloads", "offloaded_bytes", "host_bytes", "no_offload", "replans")
    peaks = {f"{k}_bytes": report[f"peak_{k}_bytes"] for k in ("allocated", "reserved")}
    ns, stall, retries, planned, n = (b - a for a, b in zip(found[max(len(found) - 3, 0)], found[-1], strict=True))
    times = {"clock_ns": ns / 2 if planned == 2 else 0, "stall_ms": round(stall / 2e6, 3), "retries": retries}
    predicted = {"predicted_overhead": time.gpu_overhead if time else None}
    if host and time:
        times |= time.row() | {"predicted_overhead": time.overhead} | about_copies(clock, n, host)
    return predicted | {key: report[key] for key in keys} | peaks | times | {"why": why}


def about_copies(clock: Clock, n: int, host: Host) -> Row:
    """Of the latest n copies, those of two steps: per step, and those for which ops waited too long."""
    latest = clock.copies[len(clock.copies) - n :]
    dear = [one for one in latest if one.stall > one.makes + host.again]
    return {
        "copies": n / 2,
        "copied_bytes": sum(one.nbytes for one in latest) // 2,
        "issued_late": sum(one.late for one in latest) / 2,
        "held": sum(one.held for one in latest) / 2,
        "longest_stall_ms": max((one.stall for one in latest), default=0) / 1e6,
        "dear_stalls": len(dear) / 2,
    }


def measure(card: str, model: str, share: int) -> None:
    """In the child: the rows of one budget."""
    from coopsim.trace.measure import peak_bytes

    with tempfile.TemporaryDirectory() as folder:
        steps = recorded(model, str(Path(folder, "recorded")))
        peak = max(peak_bytes(k.trace, 512) for k in steps.signatures) + steps.others_bytes
        keeps = by_plan(model, 2 * peak, steps, str(Path(folder, "plan")))["clock_ns"]
        for how in (RECOMPUTE, OFFLOAD):
            row = by_plan(model, peak * share // 100, steps, str(Path(folder, "plan")), how)
            row["clock_overhead"] = row.pop("clock_ns", 0) / keeps or None
            print(json.dumps({"card": card, "model": model, "share": share, "how": how} | row), flush=True)


def said_on(card: str, script: str, *words: str, variables: Mapping[str, str] | None = None) -> list[Row]:
    """What a script prints that runs on the phantom GPU, in a process of its own: a row per line."""
    more = variables or {}
    variables = phantom.environment(card, total_bytes=ENOUGH) | {"PYTHONPATH": str(ROOT)}
    variables |= {"PYTORCH_CUDA_ALLOC_CONF": SETTINGS, **more}
    command = [sys.executable, script, *words]
    done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def text_of(row: Row, columns: Sequence[str] = COLUMNS) -> dict[str, str]:
    """A row as the CSV has it."""
    return {key: "" if row.get(key) is None else str(row[key]) for key in columns}


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV; none if there is no such file."""
    return list(csv.DictReader(path.open(encoding="utf-8"))) if path.exists() else []


def write_rows(known: list[dict[str, str]], path: Path, columns: Sequence[str] = COLUMNS) -> None:
    """A CSV of these rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(known)


def main(runs: list[str]) -> None:
    """Write what was found beside what the file has of other runs."""
    known = read_rows(OUT)
    for run in runs:
        card, model, share = run.split(":")
        found = [text_of(row) for row in said_on(card, __file__, "measure", card, model, share)]
        known = [r for r in known if (r["card"], r["model"], r["share"]) != (card, model, share)] + found
        known.sort(key=lambda r: (r["card"], r["model"], -int(r["share"])))
        write_rows(known, OUT)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", card, model, share]:
            measure(card, model, int(share))
        case runs:
            main(runs or RUNS)
