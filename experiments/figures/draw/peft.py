"""The picture of docs/fine-tuning.md's table: errors of predicted peaks of peft's measured runs."""

from typing import TYPE_CHECKING, Any

from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASKS = {
    "MetaMathQA": ("Llama-3.2-3B, MetaMathQA", "#0072B2", "o"),
    "image-gen": ("FLUX.2-klein-base-4B, images", "#D55E00", "s"),
}
_GOAL = 2  # percent
_GIB = 1 << 30


def draw(table: Any) -> "Figure":
    """From expected/peft.csv: predicted beside measured, and the error of each row, by size."""
    from matplotlib.figure import Figure

    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 1.55 * s["height_in"]), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.6])
        _beside(left, table)
        _errors(right, table)
    return figure


def _beside(ax: "Axes", table: Any) -> None:
    top = 1.08 * table[["measured_bytes", "predicted_bytes"]].max().max() / _GIB
    ax.plot([0, top], [0, top], color="#999999", linewidth=0.7, zorder=1)
    for task, (label, color, marker) in TASKS.items():
        part = table[table.task == task]
        ax.plot(
            *(part.measured_bytes / _GIB, part.predicted_bytes / _GIB, marker),
            color=color,
            markersize=3.5,
            markerfacecolor="none",
            label=label,
        )
    ax.set(xlim=(0, top), ylim=(0, top), xlabel="measured on an L40S (GiB)", ylabel="predicted (GiB)", aspect="equal")
    ax.legend(loc="upper left", handletextpad=0.3, borderaxespad=0.2)
    ax.grid(visible=True)


def _errors(ax: "Axes", table: Any) -> None:
    ordered = table.sort_values("error_percent", ignore_index=True)
    ax.axhspan(-_GOAL, _GOAL, color="#EEEEEE", linewidth=0)
    ax.axhline(0, color="#999999", linewidth=0.7)
    for task, (_, color, marker) in TASKS.items():
        part = ordered[ordered.task == task]
        ax.plot(part.index, part.error_percent, marker, color=color, markersize=3.5)
    for i, row in ordered.iterrows():
        if abs(row.error_percent) > _GOAL:
            early = i < len(ordered) / 2
            text = row.experiment.partition("/")[0]
            ax.annotate(
                text,
                (i, row.error_percent),
                (5 if early else -5, 0),
                textcoords="offset points",
                ha="left" if early else "right",
                va="center",
            )
    ax.set(xlabel="rows, by error", ylabel="error of the predicted peak (%)", xlim=(-1, len(ordered)))
    ax.set_xticks([])
    ax.grid(visible=True, axis="y")
