"""The figures of a report."""

from pathlib import Path
from typing import Any

from coopsim.study.figures import output, style
from experiments.gpu import executed, names


def draw(found: dict[str, Any], folder: Path) -> list[str]:
    """Draw what there are numbers for; the names of the files."""
    drawn = []
    title = "a rehearsal on the phantom GPU: no evidence" if found["machine"]["phantom"] else ""
    rows = [r for r in found["costs"].get("errors", []) if r["class"] not in ("all", "no kernel") and r["measured_ms"]]
    if rows:
        _costs(rows, title, folder / "gpu-costs.png")
        drawn.append("gpu-costs.png")
    if any(found["execution"].get((m, names.PLAIN)) for m in names.MAIN):
        _overheads(found["execution"], title, folder / "gpu-overhead.png")
        drawn.append("gpu-overhead.png")
    return drawn


def _costs(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Measured against predicted, a point a model and class; filled where the fit has not seen the model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    classes = sorted({r["class"] for r in rows})
    for axis, key, by in zip(axes, ("roofline_ms", "fitted_ms"), ("roofline", "fitted efficiencies"), strict=True):
        for i, kind in enumerate(classes):
            for role, face in (("fit", "none"), ("test", f"C{i}")):
                part = [r for r in rows if r["class"] == kind and r["role"] == role and r[key]]
                label = kind if role == "test" else None
                x, y = [r[key] for r in part], [r["measured_ms"] for r in part]
                axis.scatter(x, y, s=28, facecolor=face, edgecolor=f"C{i}", label=label)
        low, high = min(r["measured_ms"] for r in rows) / 2, max(r["measured_ms"] for r in rows) * 2
        axis.plot([low, high], [low, high], color="0.6", linewidth=0.8, zorder=0)
        axis.set(xscale="log", yscale="log", xlabel=f"{by}, ms", title=by)
    axes[0].set_ylabel("measured, ms")
    figure.suptitle(title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small", frameon=False)
    output.save(figure, path)


def _overheads(found: dict[tuple[str, str], Any], title: str, path: Path) -> None:
    """Bars by model and policy, of the last step; wall-clock time only where it is not the host's."""
    from matplotlib.figure import Figure

    models = [m for m in names.MAIN if (m, names.PLAIN) in found]
    looks = style.policies(names.POLICIES)
    figure = Figure(figsize=(3.2 * max(len(models), 2), 3.6), layout="constrained")
    axes = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axis, model in zip(axes, models, strict=True):
        there = [p for p in names.POLICIES if (model, p) in found]
        axis.set_title(model)
        hidden = executed.host_bound(found[model, names.PLAIN])
        for k, bar in enumerate(executed.BARS):
            if hidden and bar == executed.BARS[-1]:
                axis.set_title(f"{model} (wall clock: the host's)")
                continue
            heights = []
            for policy in there:
                last = executed.overheads(found[model, policy], found[model, names.PLAIN])[-1]
                heights.append(100 * (last[bar] - 1))
            axis.bar([i + 0.2 * (k - 1.5) for i in range(len(there))], heights, 0.18, label=bar, color=f"C{k}")
        axis.set(xticks=range(len(there)), xticklabels=[looks[p].label for p in there])
        axis.axhline(0, color="0.3", linewidth=0.8)
    axes[0].set_ylabel("overhead, %")
    figure.suptitle(title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    output.save(figure, path)
