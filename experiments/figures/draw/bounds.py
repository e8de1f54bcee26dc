"""The picture of docs/optimum.md: a panel per large model, what no schedule can, and what policies do."""

import math
from typing import TYPE_CHECKING, Any

from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THREE = ("dtr-oneflow", "dtr", "dtr-eq", "dte-oneflow", "coop")
FITS_NOWHERE = "infeasible"
COLUMNS = 4
#: The four recorded last, after everything was settled, then the paper's eight. The CSV has all.
SHOWN = ("squeezenet", "edsr", "opt-350m", "xlm-r-base", "resnet-50", "inception-v3", "unet", "swin-t", "bert-large",
         "bilstm", "spos", "gpt3-2.7b")  # fmt: skip
GREY, EDGE = "#D4D4D4", "#6E6E6E"


def draw(table: Any) -> "Figure":
    """From expected/bounds.csv."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    table = table.assign(best=table[list(THREE)].min(axis=1))
    looks = {**style.policies(["coop", "foresight"]), "best": style.Look("best of DTR, DTE and Coop", "#000000")}
    traces = [trace for trace in SHOWN if trace in set(table.trace)]
    rows = math.ceil(len(traces) / COLUMNS)
    with style.applied("page"):
        s = style.size("page")
        size = (s["map_width_in"], 0.82 * rows * s["height_in"] + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        axes: list[Axes] = figure.subplots(rows, COLUMNS, sharex=True).ravel().tolist()
        for ax in axes[len(traces) :]:
            ax.set_axis_off()
        for k, ax in enumerate(axes[: len(traces)]):
            _panel(ax, table[table.trace == traces[k]].sort_values("memory_ratio"), looks)
            ax.set_title(traces[k])
            ax.tick_params(labelbottom=k + COLUMNS >= len(traces))
        figure.supxlabel(
            "memory ratio (% of peak without eviction); a point is one budget, not a band", fontsize=s["font_pt"]
        )
        figure.supylabel("overhead (%), third iteration of three", fontsize=s["font_pt"])
        handles: list[Any] = [Patch(facecolor=GREY, edgecolor=EDGE, label="no schedule can (lower bound)")]
        handles += [
            Line2D([], [], color=k.color, marker=k.marker, linestyle="-" if k.marker else ":", label=k.label)
            for k in looks.values()
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _panel(ax: "Axes", table: Any, looks: dict[str, style.Look]) -> None:
    ratio = 100 * table.memory_ratio
    shown = 100 * (table[["lower_bound", *looks]] - 1)
    top = max(10, 1.08 * shown.max().max())
    some = table.status != FITS_NOWHERE
    x, y = ratio[some].tolist(), shown.lower_bound[some].tolist()
    if not some.all():
        end = ratio[~some].max()
        x, y = [0, end, end, *x], [2 * top, 2 * top, y[0], *y]  # less memory costs no less
    ax.fill_between(x, y, color=GREY, linewidth=0)
    ax.plot(x, y, color=EDGE, linewidth=0.8)
    for name, look in looks.items():
        line = ":" if name == "best" else "-"  # upon the others, so that none is hidden
        ax.plot(ratio, shown[name], line, color=look.color, marker=look.marker)
    ax.set_xlim(26, 94)
    ax.set_xticks([30, 50, 70, 90])
    ax.set_ylim(0, top)
    ax.grid(visible=True, axis="y")
    ax.set_axisbelow(True)
