"""The first picture of docs/accuracy.md: errors of published readings, and batches near the edge of a card."""

from typing import TYPE_CHECKING, Any

from coopsim.run.memory import TOO_CLOSE
from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUPS = {
    "attention_wedsonlin": "attention\n(Hopper)",
    "transformer_2.7b_damek": "3.4 B transformer",
    "ddp_wedsonlin": "two ranks",
    "litgpt": "LitGPT\n(A10G)",
}
TRAINS, NOT = "#0072B2", "#D55E00"
_LEAST = 0.001  #: percent; the digits that were printed tell no less


def draw(table: Any) -> "Figure":
    """From expected/published.csv."""
    from matplotlib.figure import Figure

    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 1.9 * s["height_in"]), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
        _errors(left, table[table.kind == "reading"])
        _batches(right, table[table.kind == "batch"])
    return figure


def _errors(ax: "Axes", table: Any) -> None:
    for y, (source, name) in enumerate(GROUPS.items()):
        errors = sorted(table[table.source == source].error_percent.abs())
        for x in dict.fromkeys(max(e, _LEAST) for e in errors):
            n = sum(max(e, _LEAST) == x for e in errors)
            ax.plot(
                [x] * n, [y + 0.012 * (k - (n - 1) / 2) for k in range(n)], "o", color=TRAINS, alpha=0.6, markersize=4
            )
        ax.text(3.6, y - 0.3, f"{name.partition(chr(10))[0]}: {len(errors)}", ha="right", va="center")
    ax.set_yticks([])
    ax.set(xscale="log", xlim=(0.0007, 5), ylim=(len(GROUPS) - 0.5, -0.6))
    ax.set_xticks([0.001, 0.01, 0.1, 1], ["0.001\nor less", "0.01", "0.1", "1"])
    ax.minorticks_off()
    ax.set(xlabel="error of the predicted peak (%)")
    ax.grid(visible=True, axis="x")


def _batches(ax: "Axes", table: Any) -> None:
    models = [case.partition(",")[0] for case in table[table.source == "trains"].case]
    part = table.assign(model=table.case.str.partition(",")[0])
    room = {m: float(part[(part.model == m) & (part.source == "trains")].room_percent.iloc[0]) for m in models}
    order = sorted(models, key=lambda m: room[m])
    ax.axvspan(0, 100 * TOO_CLOSE, color="#DDDDDD", linewidth=0)
    labels = {"trains": (TRAINS, "o", "trains on the card"), "does not": (NOT, "x", "does not")}
    for y, model in enumerate(order):
        for source, (color, marker, label) in labels.items():
            (row,) = part[(part.model == model) & (part.source == source)].itertuples()
            x = -3 if row.room_percent != row.room_percent else row.room_percent
            ax.plot([x], [y], marker, color=color, markersize=4.5, label=label if y == 0 else None)
    ax.set_yticks(range(len(order)), order)
    ax.set(xlim=(-7, 52), ylim=(len(order) - 0.3, -0.7), xlabel="left of the RTX 3090 on the phantom GPU (%)")
    ax.set_xticks([-3, 6, 20, 30, 40, 50], ["runs\nout", "6", "20", "30", "40", "50"])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x")
    ax.legend(loc="upper right")
