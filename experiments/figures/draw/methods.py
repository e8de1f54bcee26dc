"""The picture of docs/fine-tuning.md: what the memory of each way to fine-tune is taken by."""

from typing import TYPE_CHECKING, Any

from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Kinds of `phantom run --json`'s `peak_by_kind`, in the order of the bars, with their looks.
KINDS = {
    "parameters": ("weights", "#0072B2"),
    "optimizer_state": ("optimizer state", "#CC79A7"),
    "gradients": ("gradients", "#009E73"),
    "activations": ("activations", "#A6D8F5"),
    "other": ("workspaces, temporaries", "#F0E442"),
}
_GIB = 1 << 30


def draw(table: Any) -> "Figure":
    """From expected/fine-tuning.csv: a bar per method, allocated at the peak; a mark where reserved ends."""
    from matplotlib.figure import Figure

    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 1.5 * s["height_in"]), layout="constrained")
        ax = figure.subplots()
        for y, row in enumerate(table.itertuples()):
            start = 0.0
            for kind, (label, color) in KINDS.items():
                width = getattr(row, kind) / _GIB
                name = label if y == 0 else None
                ax.barh(y, width, left=start, height=0.62, color=color, edgecolor="white", linewidth=0.5, label=name)
                start += width
            end = row.peak_reserved_bytes / _GIB
            ax.plot([end, end], [y - 0.36, y + 0.36], color="black", linewidth=1.2, label=None if y else "reserved")
            ax.text(end + 0.4, y, f"{end:.1f} GiB", va="center", fontsize=s["font_pt"])
        ax.set_yticks(range(len(table)), table.title)
        ax.set(ylim=(len(table) - 0.4, -0.6), xlabel="memory at the peak (GiB)")
        ax.set_xlim(0, 1.12 * table.peak_reserved_bytes.max() / _GIB)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=True, axis="x")
        ax.set_axisbelow(True)
        handles, labels = ax.get_legend_handles_labels()
        last = labels.index("reserved")
        for found in (handles, labels):
            found.append(found.pop(last))
        figure.legend(handles, labels, loc="outside upper center", ncols=6, columnspacing=1.2)
    return figure
