"""A real training on the CPU in half its memory: one line, one picture. Exits with 1 if the numbers are not the same.

    python experiments/live/demo.py [PICTURE]

Bytes are PyTorch's own count of what its allocator gave out (torch.profiler), over the whole process; coopsim's are
not asked. The child process runs on the phantom GPU's torch, as that is the one which is always there.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from coopsim import phantom
from coopsim.base.text import human
from coopsim.study.figures import save, style

ROOT = Path(__file__).parent.parent.parent
PICTURE = ROOT / "docs" / "images" / "live.png"
STEPS, WARM = 5, 2  #: the first makes the optimizer's state, the second is recorded again
MIB = 1 << 20


def train(memory: str | None) -> tuple[dict[str, Any], list[bytes]]:
    """In the child: a transformer's steps, plain or inside a budget. Figures of a step, and all the numbers in the end.

    The curve is that of the fastest step of the last three. Numbers are bytes: tensors would count as memory later.
    """
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, record_function

    import coopsim.live

    torch.manual_seed(0)
    torch.set_num_threads(1)
    budget = coopsim.live.Budget(memory, device="cpu") if memory else None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        layers = [nn.TransformerEncoderLayer(192, 4, 768, batch_first=True) for _ in range(6)]
        model = nn.Sequential(*layers, nn.Linear(192, 10))
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for i in range(STEPS):
            if budget and i == WARM:
                before = budget.report()
            x, y = torch.randn(8, 128, 192), torch.randint(0, 10, (1024,))
            with record_function(f"step {i}"), budget.step() if budget else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        state = optimizer.state_dict()["state"].values()
        left = [torch.tensor(losses), *model.state_dict().values(), *(t for s in state for t in s.values())]
    figures: dict[str, Any] = {"curve": min((_curve(profiled, f"step {i}") for i in range(WARM, STEPS)), key=_duration)}
    if budget:
        report = budget.report()
        keys = "evictions", "recomputes", "planned_steps"
        figures |= {key: (report[key] - before[key]) / (STEPS - WARM) for key in keys}
    return figures, [tensor.numpy().tobytes() for tensor in left]


def _curve(profiled: Any, step: str) -> list[tuple[float, int]]:
    """Milliseconds since a step began, and bytes that were given out from then on."""
    events = profiled.profiler.kineto_results.events()
    begin, end = next((e.start_ns(), e.start_ns() + e.duration_ns()) for e in events if e.name() == step)
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    curve = [(0.0, sum(nbytes for at, nbytes in changes if at < begin))]
    for at, nbytes in changes:
        if begin <= at <= end:
            curve.append(((at - begin) / 1e6, curve[-1][1] + nbytes))
    return curve


def _duration(curve: list[tuple[float, int]]) -> float:
    return curve[-1][0]


def measure() -> dict[str, Any]:
    """In the child: both trainings, one after the other."""
    plain, wanted = train(None)
    live, found = train("50%")
    return {"plain": plain["curve"], "live": live.pop("curve"), "same": wanted == found} | live


def draw(plain: list[tuple[float, int]], live: list[tuple[float, int]]) -> Any:
    """Bytes over the time of one step, both from the same moment on."""
    from matplotlib.figure import Figure

    roles, s = style.looks("role"), style.size("column")
    with style.applied("column"):
        figure = Figure(figsize=(s["map_width_in"], s["height_in"]), layout="constrained")
        ax = figure.add_subplot()
        looks = [(plain, "without a budget", roles["activation"].color), (live, "in half the memory", "#0072B2")]
        for curve, label, color in looks:
            times, sizes = zip(*curve, strict=True)
            ax.fill_between(times, [n / MIB for n in sizes], step="post", color=color, lw=0, label=label)
        most = max(n for _, n in plain) / MIB
        ax.axhline(most / 2, color="#D55E00")
        ax.annotate(
            f"budget: {most / 2:.0f} MiB", (1, most / 2), (-2, 3), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", va="bottom", color="#D55E00",
        )  # fmt: skip
        ax.set(xlabel="time since the step began (ms)", ylabel="memory (MiB)", ylim=0)
        ax.set_xlim(0, max(plain[-1][0], live[-1][0]))
        ax.legend(loc="upper right")
    return figure


def main(picture: Path) -> int:
    """The exit code."""
    environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT), "KINETO_LOG_LEVEL": "9"}
    command = [sys.executable, __file__, "measure"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    found = json.loads(done.stdout.splitlines()[-1])
    peaks = [human(max(nbytes for _, nbytes in found[which])) for which in ("plain", "live")]
    save(draw(found["plain"], found["live"]), picture)
    print(
        f"training on the CPU: {peaks[0]} a step, {peaks[1]} inside a budget of 50%; "
        f"{found['evictions']:.0f} evictions, {found['recomputes']:.0f} ops run again a step; "
        f"losses, parameters and optimizer state {'the same' if found['same'] else 'NOT the same'} bit for bit"
    )
    return 0 if found["same"] and found["planned_steps"] == 1 else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measure()))
    else:
        sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else PICTURE))
