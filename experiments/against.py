"""Does the winner of the simulation win on the real allocator? The eight models at half memory, on both.

For each model and policy, two questions are put to the real caching allocator (coopsim/oracle): of a replay in
`cuda-caching` on a card of the budget, does everything happen exactly as predicted; and of a schedule that was made
for an arena of the budget, on which smallest card is it served, request by request?

    python experiments/against.py        writes expected/against.csv and the README's section
"""

from pathlib import Path
from typing import Any

import pandas as pd
from readme import write_section

from coopsim.cli.common import progress
from coopsim.oracle import oracle
from coopsim.oracle.against import compare, smallest_card
from coopsim.replay import replay
from coopsim.requests import of_schedule
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.types import Action

HERE = Path(__file__).parent
TRACES = HERE.parent / "traces"
MODELS = ("resnet-50", "inception-v3", "unet", "swin-t", "bert-large", "bilstm", "spos", "gpt3-2.7b")
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop")
TORCH = "2.15.0"
RATIO = 0.5


def row(trace: Trace, policy: str) -> dict[str, Any]:
    """One model under one policy."""
    budget = int(RATIO * peak_bytes(trace, 512))
    steps = max(2, trace.n_steps)
    found: dict[str, Any] = {"trace": trace.label, "policy": policy, "budget_bytes": budget, "steps": steps}
    arena = replay(trace, policy, "arena", budget, steps=steps)
    found |= {"arena": arena.header["outcome"], "arena_overhead": _overhead(arena)}
    real = oracle(TORCH, fetch=True)
    if arena.header["outcome"] == "ok":
        for name, conf in (("default", ""), ("expandable", "expandable_segments:True")):
            card = smallest_card(of_schedule(arena), real, conf)
            found |= {f"card_{name}": card.total_bytes, f"card_{name}_confirmed": card.confirmed}
    caching = replay(trace, policy, "cuda-caching", budget, steps=steps, torch=TORCH)
    performed = compare(of_schedule(caching), real, "", caching.header["budget_bytes"])
    refused = int((caching.action == Action.REFUSE).sum())
    found |= {"caching": caching.header["outcome"], "caching_overhead": _overhead(caching)}
    found |= {"requests": performed.requests, "refused": refused}
    found["as_predicted"] = performed.agrees and performed.statistics["ooms"][1] == refused
    return found


def _overhead(schedule: Any) -> float | None:
    from coopsim.metrics import summary

    result = summary(schedule)["overhead"]
    return None if result is None else float(result)


def main() -> None:
    """Write the table, as CSV and into the README."""
    rows = []
    with progress("models and policies", len(MODELS) * len(POLICIES)) as tick:
        for model in MODELS:
            trace = load(TRACES / f"{model}.parquet")
            for policy in POLICIES:
                rows.append(row(trace, policy))
                tick()
    df = pd.DataFrame(rows)
    df.to_csv(HERE / "expected" / "against.csv", index=False, float_format="%.5f")
    section = text(df)
    write_section("against", section)
    print(section)


def text(df: pd.DataFrame) -> str:
    """The README's table: a row a model."""
    head = "| model, half memory | " + " | ".join(f"{p.removesuffix('-oneflow').upper()}" for p in POLICIES) + " |"
    lines = [head, "| --- |" + " --- |" * len(POLICIES)]
    for model in MODELS:
        cells = [_cell(df[(df.trace == model) & (df.policy == p)].iloc[0]) for p in POLICIES]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    asked, same = int(df.requests.sum()), int(df.as_predicted.sum())
    cards = df[["card_default_confirmed", "card_expandable_confirmed"]].stack()
    lines += [
        "",
        f"{same} of {len(df)} replays in `cuda-caching` happen on the real allocator exactly as predicted "
        f"({asked:,} requests); {int(cards.sum())} of {len(cards)} smallest cards are confirmed by it.",
    ]
    return "\n".join(lines)


def _cell(r: Any) -> str:
    """Overhead in an arena, on the caching allocator; how much larger the card must be for the arena's schedule."""

    def percent(outcome: str, overhead: float) -> str:
        return f"{100 * (overhead - 1):.0f} %" if outcome == "ok" else outcome

    cell = f"{percent(r.arena, r.arena_overhead)} → {percent(r.caching, r.caching_overhead)}"
    if r.arena != "ok":
        return cell
    plain, expandable = (100 * (card / r.budget_bytes - 1) for card in (r.card_default, r.card_expandable))
    return f"{cell}; {plain:+.0f} %, {expandable:+.0f} %"


if __name__ == "__main__":
    main()
