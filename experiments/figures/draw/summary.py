"""The picture of docs/policies.md over all networks: what each policy costs, and on how many networks it fits.

Beside them plain gradient checkpointing, from expected/checkpointed.csv (checkpointed_everywhere.py).
"""

from typing import TYPE_CHECKING, Any

from coopsim.study.figures import style
from experiments.figures.experiment import EXPECTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKPOINTING = "checkpointing"
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop", "thrift", "foresight", "foresight-offline")
BARS = (CHECKPOINTING, *POLICIES)
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
BUDGETS = (0.7, 0.5, 0.3)
HINDSIGHT = "moe"  #: its routing depends on data, so a plan made before is none; left out


def draw(table: Any) -> "Figure":
    """From expected/policies.csv. Overheads are medians over networks on which all of them fit."""
    import pandas as pd
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    table = pd.concat([table, pd.read_csv(EXPECTED / "checkpointed.csv")])
    table = table[table.policy.isin(BARS) & (table.trace != HINDSIGHT)]
    looks = {name: (look.label, look.color) for name, look in style.policies(POLICIES).items()}
    looks[CHECKPOINTING] = ("checkpointing", "#555555")
    networks = table.trace.nunique()
    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 2.1 * s["height_in"]), layout="constrained")
        cost, fits = figure.subplots(2, 1, sharex=True)
        width = 0.8 / len(BARS)
        names = []
        for k, budget in enumerate(BUDGETS):
            part = table[(table.band_center - budget).abs() < 1e-6]
            whole = part.fits == part.points
            everywhere = part[whole].groupby("trace").policy.nunique() == len(BARS)
            common = set(everywhere[everywhere].index)
            names.append(f"{budget:.0%} of the peak\n(overhead: {len(common)} networks)")
            for i, policy in enumerate(BARS):
                mine, x = part[part.policy == policy], k + (i - (len(BARS) - 1) / 2) * width
                over = 100 * (mine[mine.trace.isin(common)].overhead - 1)
                label, color = looks[policy]
                bar = {"width": 0.92 * width, "color": color}
                cost.bar(x, over.median(), label=label if not k else None, **bar)
                cost.plot([x, x], over.quantile([0.25, 0.75]), color="#222222", linewidth=0.8)
                count = int((mine.fits == mine.points).sum())
                fits.bar(x, count, **bar)
                fits.text(x, count + 1, str(count), ha="center", va="bottom", fontsize="small", bbox=WHITE)
        cost.set_ylabel("overhead, median")
        cost.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        fits.set_ylabel(f"fits, of {networks} networks")
        fits.set_ylim(0, 1.2 * networks)
        fits.axhline(networks, color="#999999", linewidth=0.6, zorder=0)
        fits.set_yticks([0, 10, 20, 30])
        fits.set_xticks(range(len(BUDGETS)), names)
        fits.tick_params(axis="x", length=0)
        for ax in (cost, fits):
            ax.grid(visible=True, axis="y")
        figure.legend(loc="outside upper center", ncols=len(BARS))
    return figure
