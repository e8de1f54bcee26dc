"""When offload pays, on demand and planned: overhead with and without it, by card and link.

    python -m experiments.offload.offload [-j JOBS]   writes expected/offload.csv, tables, figures of docs/policies.md
    python -m experiments.offload.offload --planned   makes the plans with offload again, keeps the other rows

The eight models with the costs of two cards: an op's time is the trace's, times what such an op costs on the card
÷ on the recorded one. Five budgets within 2.5 % of the peak around 0.7, 0.5 and 0.3 of it, ten
steps, one arena, host memory without a limit. Plans are made for PCIe 4 only. It goes on where it was interrupted.
"""

import os
from dataclasses import replace

import numpy as np
import pandas as pd

from coopsim.base.progress import watch
from coopsim.cards import prices, profiles
from coopsim.cards.prices import Call, class_of
from coopsim.simulate.replay import replay, warm_up
from coopsim.study.figures import memory_map, save, style
from coopsim.study.sweep import Grid, Processes, sweep
from coopsim.trace import Trace, load
from experiments.common import arguments
from experiments.common.pages import DOCS, write_section
from experiments.figures import dots
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.pictures import MODELS
from experiments.figures.results import table

RECORDED = "a100-80gb"  #: the card of the traces
CARDS = ("a100-80gb", "rtx-3060")
LINKS = ("pcie3-x16", "pcie4-x16", "pcie5-x16", "nvlink-c2c")
RATIOS = ("70%", "50%", "30%")
RECOMPUTE = ("coop", "foresight-offline")
OFFLOAD = ("coop:lose=either", "coop:lose=either,offload_state=yes", "swap-lru")
PLANNED = ("foresight-offline:lose=either", "foresight-offline:lose=either,offload_state=yes")
LOOKS = {
    "coop": "Coop",
    "coop:lose=either": "Coop, recompute or offload",
    "coop:lose=either,offload_state=yes": "the same, state too",
    "swap-lru": "LRU, offload only",
    "foresight-offline": "Foresight, recompute only",
    "foresight-offline:lose=either": "Foresight, recompute or offload",
    "foresight-offline:lose=either,offload_state=yes": "the same, state too",
}
DRAWN = ("coop", "coop:lose=either", "swap-lru", "foresight-offline", "foresight-offline:lose=either")
LIMIT = 80.0  # % of overhead, the end of the scale


def on_card(trace: Trace, card: str) -> Trace:
    """The trace as it would have been recorded for another card: each op costs by its class what it does there."""
    here, there = (prices.table(profiles.get(name)) for name in (RECORDED, card))
    cost = np.zeros_like(trace.cost_ns)
    for i in np.flatnonzero(trace.cost_ns):
        kind = class_of(trace.name[i].removeprefix("aten.").partition(".")[0])
        call = Call(kind, trace.header["precision"], int(trace.bytes_moved[i]), int(trace.flops[i]))
        cost[i] = round(trace.cost_ns[i] * there.price(call) / here.price(call))
    header = dict(trace.header) | {"card": card, "model": f"{trace.label}, {card}"}
    return replace(trace, cost_ns=cost, header=header)


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--planned", action="store_true", help="only the plans with offload, keep the other rows")
    args = parser.parse_args()
    warm_up()
    traces = [on_card(load(ROOT / "traces" / f"{model}.parquet"), card) for model in MODELS for card in CARDS]
    out = ROOT / "out"
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for name, policies, options in (
        ("recompute", RECOMPUTE, {}),
        ("planned", PLANNED, {"link": ["pcie4-x16"]}),
        ("offload", OFFLOAD, {"link": list(LINKS)}),
    ):
        if args.planned and name != "planned":
            continue
        grid = Grid(traces, policies, budgets=RATIOS, band=5, options=options)
        with watch(f"offload: {name}") as report:
            found.append(sweep(grid, out / f"offload-{name}.parquet", Processes(args.jobs), report))
    bands = summary(pd.concat(found))
    if args.planned:
        bands = beside(pd.read_csv(EXPECTED / "offload.csv"), bands)
    bands.to_csv(EXPECTED / "offload.csv", index=False, float_format="%.5f")
    write_section("offload", by_card(bands))
    save(figure(bands), DOCS / "images" / "offload.png", dpi=140)
    save(map_of_bert(), DOCS / "images" / "offload-map.png", dpi=140)


def summary(df: pd.DataFrame) -> pd.DataFrame:
    """A row for each model, card, policy, link and nominal budget: percent over the budgets that fit."""
    names = df.trace.str.split(", ", expand=True)
    df = df.assign(model=names[0], card=names[1], fits=df.outcome == "ok", link=df.link.fillna("").astype(str))
    df["percent"] = 100 * (df.overhead - 1)
    df["stall"] = 100 * df.stall_ns.astype("float64") / df.base_cost_ns
    df["host_gib"] = df.host_peak_bytes.astype("float64") / 2**30
    keys = ["card", "model", "policy", "link", "budget"]
    grouped = df.groupby(keys, sort=False, observed=True)
    rows = grouped.agg(fits=("fits", "sum"), budgets=("fits", "size")).reset_index()
    for column, how in (
        ("percent", "mean"),
        ("percent", "min"),
        ("percent", "max"),
        ("stall", "mean"),
        ("host_gib", "max"),
    ):
        values = df.where(df.fits)[column].groupby([df[k] for k in keys], sort=False, observed=True).agg(how)
        rows[column if how == "mean" else f"{column}_{how}"] = values.to_numpy()
    return rows


def beside(before: pd.DataFrame, bands: pd.DataFrame) -> pd.DataFrame:
    """The rows of before, in their order, those of the policies that plan as they are in bands."""
    keys = ["card", "model", "policy", "link", "budget"]
    before["link"] = before.link.fillna("")
    rows = pd.concat([before[~before.policy.isin(PLANNED)], bands]).set_index(keys)
    return rows.loc[pd.MultiIndex.from_frame(before[keys])].reset_index()


def at(bands: pd.DataFrame, card: str, policy: str, budget: str, link: str = "pcie4-x16") -> pd.DataFrame:
    """The rows of the models."""
    link = "" if policy in RECOMPUTE else link
    chosen = (bands.card == card) & (bands.policy == policy) & (bands.budget == budget) & (bands.link == link)
    return bands[chosen].set_index("model")


def median(rows: pd.DataFrame) -> str:
    """Over the models that fit at all budgets of the band, and how many these are."""
    whole = rows[rows.fits == rows.budgets]
    return f"{whole.percent.median():.1f} ({len(whole)})" if len(whole) else "- (0)"


def by_card(bands: pd.DataFrame) -> str:
    """Median overhead of each policy by card and budget, over PCIe 4."""
    rows = [[LOOKS[p], *(median(at(bands, c, p, b)) for c in CARDS for b in RATIOS)] for p in LOOKS]
    return table(["overhead, %", *(f"{c}, {b}" for c in CARDS for b in RATIOS)], rows)


def figure(bands: pd.DataFrame) -> "object":
    """A panel for each card and budget, a row for each model."""
    looks = {name: replace(look, label=LOOKS[name]) for name, look in style.policies(DRAWN).items()}
    shown = []
    for budget in ("50%", "30%"):
        for card in CARDS:
            for model in MODELS:
                for policy in DRAWN:
                    r = at(bands, card, policy, budget).loc[model]
                    part = 0 < r.fits < r.budgets
                    panel = f"{profiles.get(card).title.removeprefix('NVIDIA ')}, {budget} of the peak"
                    shown.append(dots.Dot(panel, model, policy, r.percent, r.percent_min, r.percent_max, part=part))
    ordered = {name: looks[name] for name in DRAWN}
    return dots.draw(shown, "overhead (%), PCIe 4", ordered, columns=2, one_scale=True, limit=LIMIT, size="page")


def map_of_bert() -> "object":
    """A planned step of BERT-Large in 30 % of its peak on the A100, with what is on the host and the engines."""
    trace = load(ROOT / "traces" / "bert-large.parquet")
    return memory_map.draw(replay(trace, PLANNED[0], "30%", steps=2, link="pcie4-x16"), trace)


if __name__ == "__main__":
    main()
