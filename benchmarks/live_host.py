"""The host's time of a step, per step and per op: PyTorch's own in plain steps, and what a budget adds, in one run.

Kernels of the phantom GPU do nothing, so all time is the host's. Plain and planned steps take turns; processor time of
the least of many steps, so that what else the machine does matters little. What is added per op run again is what half
the memory takes beyond room for everything: the op itself as PyTorch dispatches it, evictions, and calls that are kept;
beside PyTorch's own, it is that less what an op takes in a plain step, on average. A table in Markdown.

    python benchmarks/live_host.py
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coopsim import phantom

ROOT = Path(__file__).parent.parent
STEPS = 30
WARM = 14  #: steps until the plan is the last one


def measure() -> None:
    """In the child."""
    import torch
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode

    import coopsim.live

    torch.set_num_threads(1)

    class Empty(TorchDispatchMode):
        ops = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Empty.ops += 1
            return func(*args, **(kwargs or {}))

    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(8)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.zeros(32, 256, 256, device="cuda")

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    with Empty():
        step()
    ops = Empty.ops

    def least(*arounds: Callable[[], Any]) -> list[tuple[float, float]]:
        """Least ms of processor time per step of each, and of its beginning and end alone; they take turns."""
        found = [(float("inf"), float("inf"))] * len(arounds)
        for _ in range(STEPS):
            for i, around in enumerate(arounds):
                context, times = around(), [time.process_time_ns()]
                for run in (context.__enter__, step, lambda: context.__exit__(None, None, None)):  # noqa: B023
                    run()
                    times.append(time.process_time_ns())
                whole, ends = times[3] - times[0], times[3] - times[2] + times[1] - times[0]
                found[i] = min(found[i][0], whole / 1e6), min(found[i][1], ends / 1e6)
        return found

    def budgets(how: str) -> tuple[list[Any], int, int]:
        """Budgets with room for everything and of half the memory, and what a step of the latter does."""
        made = [coopsim.live.Budget(share) for share in ("1TiB", "50%")]
        for budget in made:
            if how == "Python alone":
                budget.session._observer = None
            elif budget.report()["no_observer"]:
                sys.exit(f"no observer: {budget.report()['no_observer']}")
            for _ in range(WARM):
                with budget.step():
                    step()
        before = made[1].report()
        with made[1].step():
            step()
        again, evictions = (made[1].report()[key] - before[key] for key in ("recomputes", "evictions"))
        return made, again, evictions

    (plain, _), (empty, _) = least(contextlib.nullcontext, Empty)

    def row(name: str, plain: float, took: float, ends: str = "", again: float | None = None) -> None:
        own = 1e3 * plain / ops
        added = [1e3 * (took - plain) / ops, *([again, again - own] if again is not None else [])]
        cells = [name, f"{plain:.2f}", f"{own:.1f}", f"{took:.2f}", ends, *(f"{us:.1f}" for us in added)]
        print("|", " | ".join([*cells, *[""] * (8 - len(cells))]), "|", flush=True)

    print(f"{ops} ops per step\n")
    heads = "PyTorch's own, ms per step", "µs per op", "in a budget, ms per step", "of it beginning and end"
    print("|", " | ".join(["", *heads, "added per op, µs", "per op run again, µs", "beside PyTorch's own, µs"]), "|")
    print("| --- " * 8 + "|")
    row("an empty dispatch mode", plain, empty)
    for how in ("Python alone", "the observer"):
        (roomy, half), again, evictions = budgets(how)
        (plain, _), (room, ends), (little, more) = least(contextlib.nullcontext, roomy.step, half.step)
        row(f"{how}, room for all", plain, room, f"{ends:.2f}")
        name = f"{how}, half the memory: {again} ops run again, {evictions} evictions"
        row(name, plain, little, f"{more:.2f}", 1e3 * (little - room) / again)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)}
        sys.exit(subprocess.run([sys.executable, __file__, "measure"], env=environment, check=False).returncode)  # noqa: S603
