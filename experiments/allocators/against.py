"""Does the winner of the simulation win on the real allocator? The eight models at half memory, on both.

For each model and policy, two questions are put to the real caching allocator (coopsim/study/oracle): of a replay in
`cuda-caching` on a card of the budget, does everything happen exactly as predicted; and of a schedule that was made
for an arena of the budget, on which smallest card is it served, request by request? Results are chaotic in the budget,
so replays are those of figures/overhead.toml: ten steps, at 11 budgets within 2.5 % of the peak around half of it. The
cards are of one budget, the nearest to half that fits, as finding them takes longest.

    python -m experiments.allocators.against [MODEL ...]    writes expected/against.csv, its sums in docs/policies.md

About half an hour on one core. The rows of models that are not named are kept.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from coopsim.base.progress import progress
from coopsim.base.types import Action
from coopsim.simulate.allocators import cuda_caching
from coopsim.simulate.replay import replay
from coopsim.study.oracle import oracle
from coopsim.study.oracle.against import compare, smallest_card
from coopsim.study.sweep import Grid
from coopsim.study.sweep.grid import Point
from coopsim.trace import Trace
from coopsim.trace.requests_of import of_schedule
from experiments.common import arguments
from experiments.common.pages import wrapped, write_section

HERE = Path(__file__).parents[1]
TRACES = HERE.parent / "traces"
MODELS = ("resnet-50", "inception-v3", "unet", "swin-t", "bert-large", "bilstm", "spos", "gpt3-2.7b")
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop", "thrift", "foresight")
TORCH = "2.15.0"
BAND = 11
EXPECTED = HERE / "expected" / "against.csv"


def points(grid: Grid, policy: str) -> list[Point]:
    """The budgets of one policy, the nearest to the middle first."""
    found = sorted((p for p in grid.points() if p.setting.policy == policy), key=lambda p: p.budget_bytes)
    middle = found[BAND // 2].budget_bytes
    return sorted(found, key=lambda p: abs(p.budget_bytes - middle))


def row(trace: Trace, point: Point, *, cards: bool) -> dict[str, Any]:
    """One model under one policy, at one budget; cards: the smallest that serve the arena's schedule, too."""
    policy, budget, steps = point.setting.policy, point.budget_bytes, point.setting.options.steps
    found: dict[str, Any] = {"trace": trace.label, "policy": policy, "budget_bytes": budget, "steps": steps}
    found |= {"card_default": None, "card_expandable": None}
    arena = replay(trace, policy, budget, steps=steps)
    found |= {"arena": arena.header["outcome"], "arena_overhead": _overhead(arena)}
    real = oracle(TORCH, fetch=True)
    if cards and arena.header["outcome"] == "ok":
        for name, conf in (("default", ""), ("expandable", "expandable_segments:True")):
            card = smallest_card(of_schedule(arena), real, conf)
            found |= {f"card_{name}": card.total_bytes, f"card_{name}_confirmed": card.confirmed}
    caching = replay(trace, policy, budget, cuda_caching(torch=TORCH), steps=steps)
    performed = compare(of_schedule(caching), real, "", caching.header["budget_bytes"])
    refused = int((caching.action == Action.REFUSE).sum())
    found |= {"caching": caching.header["outcome"], "caching_overhead": _overhead(caching)}
    found |= {"requests": performed.requests, "refused": refused}
    found["as_predicted"] = performed.agrees and performed.statistics["ooms"][1] == refused
    return found


def _overhead(schedule: Any) -> float | None:
    from coopsim.simulate.metrics import summary

    result = summary(schedule)["overhead"]
    return None if result is None else float(result)


def rows(model: str, tick: Callable[[], None]) -> pd.DataFrame:
    """One model under all policies."""
    grid = Grid([str(TRACES / f"{model}.parquet")], POLICIES, budgets=("50%",), band=BAND)
    ((_, trace),) = grid.loaded
    found = []
    for policy in POLICIES:
        carded = False
        for point in points(grid, policy):
            found.append(row(trace, point, cards=not carded))
            carded |= found[-1]["arena"] == "ok"
            tick()
    table = pd.DataFrame(found)
    table["place"] = table.policy.map(POLICIES.index)
    return table.sort_values(["place", "budget_bytes"]).drop(columns="place")


def main(models: list[str]) -> None:
    """Write the table, as CSV, after each model, and at the end into the page."""
    with progress("replays", len(models) * len(POLICIES) * BAND) as tick:
        for model in models:
            parts = {model: rows(model, tick)}
            if EXPECTED.exists():
                parts = {str(name): part for name, part in pd.read_csv(EXPECTED).groupby("trace")} | parts
            df = pd.concat([parts[name] for name in MODELS if name in parts])
            df.to_csv(EXPECTED, index=False, float_format="%.5f")
    section = text(pd.read_csv(EXPECTED))
    write_section("against", section)
    print(section)


def text(df: pd.DataFrame) -> str:
    """How many replays happened as predicted."""
    cards = df[["card_default_confirmed", "card_expandable_confirmed"]].stack().dropna()
    return wrapped(
        f"With torch {TORCH}, {int(df.as_predicted.sum())} of {len(df)} replays on the caching allocator happen on the "
        f"real one exactly as predicted ({int(df.requests.sum()):,} requests). It confirms {int(cards.sum())} of "
        f"{len(cards)} smallest cards."
    )


if __name__ == "__main__":
    parser = arguments.parser(__doc__)
    parser.add_argument("model", nargs="*", metavar="MODEL", choices=[*MODELS, []], help="default: all")
    main(parser.parse_args().model or list(MODELS))
