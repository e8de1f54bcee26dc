"""The picture of docs/accuracy.md: predicted against measured peaks, and every estimator's errors."""

from typing import TYPE_CHECKING, Any

from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS = "phantom GPU"
CARDS = {
    "RTX 3060": ("#0072B2", "o"),
    "RTX 4060": ("#009E73", "s"),
    "A100": ("#D55E00", "^"),
    "GTX 1650": ("#CC79A7", "D"),
    "H100": ("#E69F00", "v"),
}
WHAT = {"GTX 1650": ", compiled passes", "H100": ", ranks"}


def draw(table: Any) -> "Figure":
    """From expected/accuracy.csv."""
    from matplotlib.figure import Figure

    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 1.75 * s["height_in"]), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.3])
        _peaks(left, table[table.estimator.str.startswith(OURS)])
        _errors(right, table)
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def _peaks(ax: "Axes", table: Any) -> None:
    ends = [0.15, 110]
    ax.plot(ends, ends, color="#999999", linewidth=0.8, label="equal")
    for card, (color, marker) in CARDS.items():
        part = table[table.card == card]
        measured = part.measured_mib / 1024
        predicted = measured * (1 + part.error_percent / 100)
        what = WHAT.get(card, "")
        label = f"{card}{what} ({len(part)})"
        ax.plot(measured, predicted, marker, color=color, markerfacecolor="none", markeredgewidth=0.8, label=label)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    ax.set_xticks([0.2, 1, 5, 20, 80], ["0.2", "1", "5", "20", "80"])
    ax.set_yticks([0.2, 1, 5, 20, 80], ["0.2", "1", "5", "20", "80"])
    ax.minorticks_off()
    ax.set(xlabel="measured peak (GiB)", ylabel="phantom GPU (GiB)")
    ax.grid(visible=True)


def _errors(ax: "Axes", table: Any) -> None:
    names = sorted(dict.fromkeys(table.estimator), key=lambda n: (not n.startswith(OURS), n == OURS))
    for y, name in enumerate(names):
        part = table[table.estimator == name]
        for card, (color, marker) in CARDS.items():
            mine = part[part.card == card].error_percent
            ax.plot(mine, [y] * len(mine), marker, color=color, alpha=0.75, markeredgewidth=0)
        ax.text(72, y - 0.3, f"median {part.error_percent.abs().median():.1f} %", ha="right", va="center")
    ax.axvline(0, color="#999999", linewidth=0.8)
    ax.set_yticks(range(len(names)), [f"{n}\n({len(table[table.estimator == n])})" for n in names])
    ax.set(xlim=(-75, 75), ylim=(len(names) - 0.5, -0.6), xlabel="error of the predicted peak (%)")
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x")
