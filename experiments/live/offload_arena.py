"""Planned steps in an arena that may offload, beside those that recompute alone: eight models, four budgets, two cards.

Budgets are shares of the peak, and what checkpointing every block reserves (`checkpoint`, of memory.csv). A process per
budget and way, on the phantom GPU; steps are recorded, planned, tried, replanned and timed as by offload.py, whose
columns the CSV has.

    python experiments/live/offload_arena.py [CARD:MODEL...]
    python experiments/live/offload_arena.py table
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memory
from offload import OFFLOAD, RECOMPUTE, by_plan, read_rows, said_on, text_of, write_rows

from experiments.common.pages import write_section

OUT = memory.ROOT / "experiments" / "expected" / "live" / "offload_arena.csv"
CARDS, SHARES = ("a100-80gb", "rtx-3060"), ("70", "50", "30")
SHOWN_CARD, SHOWN = "rtx-3060", ("bert-large", "gpt-2", "resnet-50", "vit-b")  #: on the page
CHECKPOINT = "checkpoint"  #: a budget: what the checkpointed program reserves
KEEPS = "keeps everything"
Row = dict[str, Any]


def measure(model: str, how: str, nbytes: int, path: str) -> None:
    """In the child: one way in one budget. No bytes: steps are recorded in an arena of all memory, for the others."""
    from coopsim.live import plan_file
    from coopsim.live.arena.library import Arena, install

    install(nbytes)
    if not nbytes:
        memory.recorded(model, path, Arena())
        return
    with tempfile.TemporaryDirectory() as folder:
        plan = str(Path(folder, "plan"))
        print(json.dumps(by_plan(model, nbytes, plan_file.load(path), plan, how)))


def rows(card: str, model: str) -> Iterator[Row]:
    """All of a model on a card."""
    budgets = {r["how"]: r for r in memory.read() if r["model"] == model}
    peak = int(budgets["plain"]["allocated_bytes"])
    wanted = {share: peak * int(share) // 100 for share in SHARES}
    wanted[CHECKPOINT] = int(budgets["checkpoint"]["reserved_bytes"])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "recorded"))
        child(card, model, KEEPS, 0, path)
        keeps = child(card, model, RECOMPUTE, 2 * peak, path)["clock_ns"]
        for share, nbytes in wanted.items():
            for how in (RECOMPUTE, OFFLOAD):
                row = child(card, model, how, nbytes, path)
                row["clock_overhead"] = row.pop("clock_ns", 0) / keeps or None
                yield {"card": card, "model": model, "share": share, "how": how} | row


def child(card: str, model: str, how: str, nbytes: int, path: str) -> Row:
    """What a process of its own finds."""
    said = said_on(card, __file__, "measure", model, how, str(nbytes), path)
    return said[0] if said else {}


def table(known: list[dict[str, str]]) -> str:
    """The table of the page, some of the rows: overhead by recomputing → with offload."""
    names = [f"{share} %" for share in SHARES] + ["checkpointing's bytes"]
    lines = [["model", *names], ["---"] * 5]
    for model in SHOWN:
        ours = [r for r in known if (r["card"], r["model"]) == (SHOWN_CARD, model)]
        lines.append([model, *(pair(*ours[k : k + 2]) for k in range(0, len(ours), 2))])
    return "\n".join(f"| {' | '.join(words)} |" for words in lines)


def pair(alone: dict[str, str], copied: dict[str, str]) -> str:
    """One cell."""
    return f"{percent(alone)} → {percent(copied) if copied['why'] != 'not measured' else 'not measured'}"


def percent(row: dict[str, str]) -> str:
    """The predicted overhead; - where the steps do not fit."""
    return f"{100 * (float(row['predicted_overhead']) - 1):.1f}" if row["fits"] == "True" else "-"


def put() -> None:
    """The table into its page."""
    write_section("offload in an arena", table(read()))


def read() -> list[dict[str, str]]:
    """What the file has."""
    return read_rows(OUT)


def write(known: list[dict[str, str]]) -> None:
    """All of it, in the order of cards, models and budgets."""
    shares = [*SHARES, CHECKPOINT]
    known.sort(
        key=lambda r: (CARDS.index(r["card"]), memory.MODELS.index(r["model"]), shares.index(r["share"]))  # stable
    )
    write_rows(known, OUT)


def main(runs: list[str]) -> None:
    """Write what was found beside what the file has of other runs, row by row."""
    for run in runs:
        card, model = run.split(":")
        others = [r for r in read() if (r["card"], r["model"]) != (card, model)]
        ours: list[dict[str, str]] = []
        for row in rows(card, model):
            ours.append(text_of(row))
            write(others + ours)
    put()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", model, how, nbytes, path]:
            measure(model, how, int(nbytes), path)
        case ["table"]:
            put()
        case runs:
            main(runs or [f"{card}:{model}" for card in CARDS for model in memory.MODELS])
