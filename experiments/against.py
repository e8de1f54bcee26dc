"""Does the winner of the simulation win on the real allocator? The eight models at half memory, on both.

For each model and policy, two questions are put to the real caching allocator (coopsim/oracle): of a replay in
`cuda-caching` on a card of the budget, does everything happen exactly as predicted; and of a schedule that was made
for an arena of the budget, on which smallest card is it served, request by request? Results are chaotic in the budget,
so everything is done at 11 neighbouring budgets within 2.5 % of half the peak.

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
RATIOS = [0.5 * (1 + 0.005 * k) for k in range(-5, 6)]


def row(trace: Trace, policy: str, ratio: float) -> dict[str, Any]:
    """One model under one policy, at one budget."""
    budget = int(ratio * peak_bytes(trace, 512))
    steps = max(2, trace.n_steps)
    found: dict[str, Any] = {"trace": trace.label, "policy": policy, "budget_bytes": budget, "steps": steps}
    found |= {"card_default": None, "card_expandable": None}
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
    with progress("replays", len(MODELS) * len(POLICIES) * len(RATIOS)) as tick:
        for model in MODELS:
            trace = load(TRACES / f"{model}.parquet")
            for policy in POLICIES:
                for ratio in RATIOS:
                    rows.append(row(trace, policy, ratio))
                    tick()
    df = pd.DataFrame(rows)
    df.to_csv(HERE / "expected" / "against.csv", index=False, float_format="%.5f")
    section = text(df)
    write_section("against", section)
    print(section)


def text(df: pd.DataFrame) -> str:
    """The README's tables: a row a model."""
    heads = "| model | " + " | ".join(POLICIES) + " |"
    rule = "| --- |" + " --- |" * len(POLICIES)
    lines = ["Overhead at half memory, in %, in an arena → on PyTorch's caching allocator:", "", heads, rule]
    for model in MODELS:
        parts = [df[(df.trace == model) & (df.policy == p)] for p in POLICIES]
        cells = [f"{_band(g, 'arena')} → {_band(g, 'caching')}" for g in parts]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    lines += ["", "How much larger than the arena a card must be that serves the arena's schedule request by request,"]
    lines += ["in %, with default settings / with `expandable_segments:True`:", "", heads, rule]
    for model in MODELS:
        parts = [df[(df.trace == model) & (df.policy == p)] for p in POLICIES]
        lines.append(f"| {model} | " + " | ".join(map(_cards, parts)) + " |")
    cards = df[["card_default_confirmed", "card_expandable_confirmed"]].stack().dropna()
    predicted, requests = int(df.as_predicted.sum()), int(df.requests.sum())
    lines += [
        "",
        f"torch {TORCH}; mean ± standard deviation over {len(RATIOS)} budgets, and how many of them fit where not all "
        f"do. {predicted} of {len(df)} replays on the caching allocator happen on the real one exactly as predicted "
        f"({requests:,} requests); it confirms {int(cards.sum())} of {len(cards)} smallest cards.",
    ]
    return "\n".join(lines)


def _band(group: pd.DataFrame, where: str) -> str:
    fits = group[group[where] == "ok"]
    if not len(fits):
        return "does not fit"
    some = f" ({len(fits)} of {len(group)})" if len(fits) < len(group) else ""
    overhead = 100 * (fits[f"{where}_overhead"] - 1)
    return f"{overhead.mean():.0f} ± {overhead.std(ddof=0):.0f}{some}"


def _cards(group: pd.DataFrame) -> str:
    fits = group[group.arena == "ok"]
    if not len(fits):
        return "-"
    excess = [100 * (fits[f"card_{name}"] / fits.budget_bytes - 1).mean() for name in ("default", "expandable")]
    return f"{excess[0]:.1f} / {excess[1]:.1f}"


if __name__ == "__main__":
    main()
