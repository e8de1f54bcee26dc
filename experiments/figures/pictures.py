"""What is drawn of the table of an experiment: a figure for each word that `draw` may be."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coopsim.base.errors import unknown
from coopsim.study import tables
from coopsim.study.figures import feasibility, lines, style
from experiments.figures import dots
from experiments.figures.dots import Dot
from experiments.figures.draw import (
    accuracy,
    bounds,
    checkpointing,
    methods,
    peft,
    published,
    recomputed,
    steps,
    summary,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("dtr-oneflow", "dte-oneflow", "coop")
OURS = ("thrift", "foresight")
MODELS = ("resnet-50", "inception-v3", "unet", "swin-t", "bert-large", "bilstm", "spos", "gpt3-2.7b")
OVERHEAD = "overhead (%)"
IN_WORDS = {
    "dead=keep": "dead values kept",
    "in_place=recomputable": "in-place rule switched",
    "in_place=copy_outputs": "in-place rule switched",
    "placement=two_ended": "placement switched",
    "placement=low": "placement switched",
}


def cases(table: Any) -> "Figure":
    """Bands of overhead at one nominal budget: a panel a trace, a row a case of what varies beside the policy."""
    found = tables.bands(table)
    varying = next((c for c in ("cost_model", "steps") if c in found.columns), None)
    rows = []
    for r in found.itertuples():
        base, _, change = r.policy.partition(":")
        row = IN_WORDS.get(change, "as published") if varying is None else case(varying, getattr(r, varying))
        rows.append(band(r.trace, row, base, r))
    axis = f"{OVERHEAD} in {found.band_center.iloc[0]:.0%} of the peak"
    return dots.draw(rows, axis, looks(), columns=2, one_scale=True, size="page")


def case(name: str, value: Any) -> str:
    """A value of an option, in words."""
    if name == "steps":
        return f"{value} step{'s' * (value != 1)}"
    return {"cost": "by cost", "bytes": "by bytes moved", "flops": "by operations", "unit": "by op count"}[value]


def band(panel: str, row: str, series: str, r: Any) -> Dot:
    """A band of overheads as a dot: mean, and the range over its budgets."""
    low, high = (getattr(r, f"overhead_{end}") for end in ("min", "max"))
    values = [100 * (x - 1) for x in (r.overhead, low, high)]
    return Dot(panel, row, series, *values, part=0 < r.fits < r.points)


def settings(table: Any) -> "Figure":
    """The headline table: a row a setting, mean and standard deviation."""
    rows = []
    for r in table.itertuples():
        mean, spread = 100 * (r.overhead - 1), 100 * r.overhead_spread
        rows.append(Dot("", r.setting, r.policy, mean, mean - spread, mean + spread, part=0 < r.fits < r.points))
    return dots.draw(rows, f"{OVERHEAD}, BERT-Large at half memory", looks())


def smallest(table: Any) -> "Figure":
    """The smallest safe budget of each model; a line to the smallest that fits at all."""
    rows = [
        Dot("", r.trace, r.policy, 100 * r.safe, 100 * r.smallest, 100 * r.safe)
        for r in tables.smallest_budgets(table).itertuples()
    ]
    return dots.draw(rows, "smallest safe budget (% of peak);\nline: down to the smallest that fits at all", looks())


def reserved(table: Any) -> "Figure":
    """What each allocator reserves above the lower bound."""
    rows = [Dot("", r.trace, r.allocator, 100 * (r.peak_reserved / r.lower_bound - 1)) for r in table.itertuples()]
    return dots.draw(rows, "reserved above the most bytes alive at once (%)", style.looks("allocator"))


def against(table: Any) -> "Figure":
    """Half memory in an arena, and on PyTorch's caching allocator."""
    rows = []
    for panel, outcome, column in (
        ("arena", "arena", "arena_overhead"),
        ("PyTorch's caching allocator", "caching", "caching_overhead"),
    ):
        for model in MODELS:
            for policy in (*POLICIES, *OURS):
                part = table[(table.trace == model) & (table.policy == policy)]
                found = 100 * (part.loc[part[outcome] == "ok", column] - 1)
                some = 0 < len(found) < len(part)
                rows.append(Dot(panel, model, policy, found.mean(), found.min(), found.max(), part=some))
    return dots.draw(rows, f"{OVERHEAD} at half memory", looks(*OURS), columns=2, one_scale=True, size="page")


def gap(table: Any) -> "Figure":
    """Overhead above the least of any schedule, where that is known: a panel a budget."""
    rows = []
    for r in table[
        (table.status == "optimal") & table.policy.isin([*POLICIES, "thrift", "static-dtr", "lru"])
    ].itertuples():
        value = 100 * (r.overhead - r.lower_bound) if r.outcome == "ok" else math.nan
        rows.append(Dot(f"{r.memory_ratio:.0%} of the peak", r.trace, r.policy, value))
    found = looks("thrift", "static-dtr", "lru")
    axis = "overhead above the optimum (percentage points)"
    return dots.draw(rows, axis, found, columns=2, one_scale=True, limit=28, size="page")


def looks(*more: str) -> dict[str, style.Look]:
    """Of DTR, DTE and Coop, and of other policies, in that order."""
    found = style.policies([*POLICIES, *more])
    return {name: found[name] for name in (*POLICIES, *more)}


PICTURES: dict[str, Callable[[Any], "Figure"]] = {
    **{what: (lambda table, what=what: lines.draw(table, what, size="page")) for what in lines.QUANTITIES},  # type: ignore[misc]
    "feasibility": feasibility.draw,
    "cases": cases,
    "settings": settings,
    "smallest": smallest,
    "reserved": reserved,
    "against": against,
    "gap": gap,
    "checkpointing": checkpointing.draw,
    "accuracy": accuracy.draw,
    "bounds": bounds.draw,
    "methods": methods.draw,
    "peft": peft.draw,
    "published": published.draw,
    "recomputed": recomputed.draw,
    "steps": steps.draw,
    "summary": summary.draw,
}
WALL_CLOCK = ("search_time",)  #: look otherwise each time, so they are not in the results page


def draw(what: str, table: Any) -> "Figure":
    """A figure. CoopsimError for a word that is not in PICTURES."""
    if what not in PICTURES:
        raise unknown("figure", what, PICTURES)
    return PICTURES[what](table)
