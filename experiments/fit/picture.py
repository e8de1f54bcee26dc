"""Draw docs/images/fit.png: memory over a step of examples/train.py as it is, and with what `coopsim fit` says.

    python experiments/fit/picture.py

Both are run on the phantom GPU with memory enough (two minutes), so that the step as it is can be seen to its end.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import coopsim
from coopsim.base.types import Phase, Role
from coopsim.cards import profiles
from coopsim.run import Script, record
from coopsim.study.figures import save, style
from coopsim.trace import Trace

HERE = Path(__file__).parent
SCRIPT = HERE.parent.parent / "examples" / "train.py"
MODEL = "model = Language().cuda()\n"
#: The first remedy of `coopsim fit --gpu rtx-3060 -- python train.py`.
REMEDY = """\
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
chosen = {*model.layers[:11]}
apply_activation_checkpointing(model, check_fn=lambda module: module in chosen)
"""
PICTURE = HERE.parent.parent / "docs" / "images" / "fit.png"
CARD = profiles.get("rtx-3060")
GIB = 1 << 30
ENOUGH = 64 * GIB
LINE = "#D55E00"
LAYERS = ("context", "parameter", "optimizer_state", "gradient", "activation", "backward")


@dataclass(frozen=True)
class Step:
    """GPU time in s at which each op begins, and the GiB of each of LAYERS meanwhile."""

    seconds: np.ndarray
    layers: np.ndarray

    @classmethod
    def of(cls, trace: Trace) -> "Step":
        """A recorded step."""
        made = np.full(trace.n_storages, -1)
        made[trace.creates.values] = np.repeat(np.arange(trace.n_ops), np.diff(trace.creates.start))
        gone = np.full(trace.n_storages, trace.n_ops)
        gone[trace.freed] = trace.freed_after + 1
        layers = np.zeros((len(LAYERS), trace.n_ops + 1))
        for storage, (begin, end) in enumerate(zip(np.maximum(made, 0), gone, strict=True)):
            layers[_layer(trace, storage, int(made[storage])), begin:end] += trace.bytes[storage] / GIB
        layers[0] = CARD.context_mib / 1024
        seconds = np.append(0, trace.cost_ns.cumsum()) / 1e9
        return cls(seconds, layers)


def _layer(trace: Trace, storage: int, made: int) -> int:
    role = trace.role[storage]
    if role in (Role.PARAMETER, Role.OPTIMIZER_STATE, Role.GRADIENT):
        return LAYERS.index(str(role))
    backward = made >= 0 and trace.phase[made] != Phase.FORWARD
    return LAYERS.index("backward" if backward else "activation")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fixed = Path(folder, "train.py")
        text = SCRIPT.read_text(encoding="utf-8")
        assert text.count(MODEL) == 1
        fixed.write_text(text.replace(MODEL, MODEL + REMEDY), encoding="utf-8")
        steps = [_step(SCRIPT, Path(folder, "before")), _step(fixed, Path(folder, "after"))]
    save(draw(*steps), PICTURE)


def _step(script: Path, out: Path) -> Step:
    """The third, as the first makes the optimizer's state."""
    record(Script((str(script),), card=CARD.name, memory_bytes=ENOUGH, quiet=True), out, steps=1, warmup=2)
    return Step.of(coopsim.load(out))


def draw(before: Step, after: Step) -> Figure:
    """Side by side, on the same scales."""
    s = style.size("column")
    total = CARD.memory_bytes / GIB
    with style.applied("column"):
        figure = Figure(figsize=(s["map_width_in"], 3.0), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True, width_ratios=[before.seconds[-1], after.seconds[-1]])
        titles = ("as it is: out of memory", "11 of 16 blocks recomputed: trains")
        for ax, step, title in zip(axes, (before, after), titles, strict=True):
            _stack(ax, step, total)
            ax.set(xlim=(0, step.seconds[-1]), xticks=np.arange(0, step.seconds[-1], 0.5))
            ax.set_title(title, loc="left")
            ax.grid(axis="y")
        top = before.layers.sum(0).max()
        axes[0].set(ylabel="memory of the card (GiB)", ylim=(0, 1.04 * top), yticks=np.arange(0, top, 4))
        name = CARD.title.removeprefix("NVIDIA GeForce ")
        axes[1].text(after.seconds[-1], total + 0.15, f"{name}: {total:.2f} GiB", color=LINE, ha="right", va="bottom")
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside right center")
        figure.supxlabel("GPU time in a step, predicted (s)", fontsize=s["font_pt"])
    return figure


def _stack(ax: Any, step: Step, total: float) -> None:
    """What would have come after memory ran out is pale."""
    names, colors = _looks()
    over = step.layers.sum(0) > total
    end = int(over.argmax()) if over.any() else len(over) - 1
    base = np.zeros(len(step.seconds))
    for layer, name, color in zip(step.layers, names, colors, strict=True):
        top = base + layer
        for part, alpha in ((slice(None, end + 1), 1.0), (slice(end, None), 0.3)):
            if len(step.seconds[part]) > 1:
                label = name if alpha == 1.0 else None
                x = step.seconds[part]
                ax.fill_between(x, base[part], top[part], step="post", color=color, alpha=alpha, label=label, lw=0)
        base = top
    ax.axhline(total, color=LINE)
    if over.any():
        ax.plot(step.seconds[end], total, "X", color="#000000", markeredgecolor="#FFFFFF", markersize=9, zorder=5)


def _looks() -> tuple[list[str], list[str]]:
    roles = style.looks("role")
    context = style.looks("memory")["other"].color
    looks = [("context", context)]
    looks += [(roles[name].label, roles[name].color) for name in LAYERS[1:-2]]
    looks += [("made by the forward pass", roles["activation"].color), ("made by the backward pass", "#F2C14E")]
    return [name for name, _ in looks], [color for _, color in looks]


if __name__ == "__main__":
    main()
