"""The host's time of a step, per step and per op: PyTorch's own in plain steps, and what a budget adds, in one run.

Kernels of the phantom GPU do nothing, so all time is the host's. Plain and planned steps take turns, some of a kind at
a time. The first turn and the first steps of each are left out, in which the allocator adapts to another cap; the rest
neither allocate nor free device memory, which is checked. Processor time: the least of all plain steps, and of the
others the median over turns of the ratio to the plain steps of the same turn, so that what else the machine does
matters little.

What is added per op run again is what a budget of 35 % takes beyond one of 95 %, by the ops that it runs again beyond
that: the op itself as PyTorch dispatches it, and its evictions. Both budgets keep the calls of the same ops, nearly.
PyTorch's own share is what the very same calls take by themselves, in the same run, from Python. A table in Markdown.

    python benchmarks/live_host.py
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from coopsim import phantom

ROOT = Path(__file__).parent.parent
ROUNDS, AT_ONCE, LEFT_OUT = 50, 4, 2  #: turns, steps of each in a turn, and how many of them do not count
WARM = 14  #: steps until the plan is the last one
BUDGETS = {"room for all": "1TiB", "95 % of the memory": "95%", "35 % of it": "35%"}


def measure() -> None:
    """In the child."""
    import torch
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode

    import coopsim.live
    from coopsim.live.actions import Recompute
    from coopsim.record.observe.torch_private import DispatchBelowAutograd, memory_stats

    torch.set_num_threads(1)

    class Empty(TorchDispatchMode):
        def __init__(self, log: list[Any] | None = None) -> None:
            super().__init__()
            self._log = log

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self._log is not None and func.namespace != "profiler":
                self._log.append((func, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(8)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.zeros(32, 256, 256, device="cuda")

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def log() -> list[Any]:
        """The calls of a step, which hold all that it makes."""
        found: list[Any] = []
        with Empty(found):
            step()
        return found

    for _ in range(3):
        step()
    ops = len(log())

    def device_calls() -> int:
        stats = memory_stats(0)
        return int(stats["num_device_alloc"] + stats["num_device_free"])

    def measured(*arounds: Callable[[], Any]) -> list[tuple[float, float]]:
        """Ms of processor time per step of each, and of its beginning and end alone; they take turns.

        The least of the first; of the others so many times that, by the median over turns.
        """
        found: list[list[tuple[int, int]]] = [[] for _ in arounds]
        for n in range(ROUNDS + 1):
            for i, around in enumerate(arounds):
                turn = []
                for k in range(AT_ONCE):
                    context, calls, times = around(), device_calls(), [time.process_time_ns()]
                    for run in (context.__enter__, step, lambda: context.__exit__(None, None, None)):  # noqa: B023
                        run()
                        times.append(time.process_time_ns())
                    if n and k >= LEFT_OUT:
                        if device_calls() != calls:
                            sys.exit("a step that counts has allocated device memory, or freed some")
                        turn.append((times[3] - times[0], times[3] - times[2] + times[1] - times[0]))
                if n:
                    found[i].append(min(turn))
        least = min(whole for whole, _ in found[0]) / 1e6
        turns = list(zip(*found, strict=True))
        return [
            (
                least * median(turn[i][0] / turn[0][0] for turn in turns),
                least * median(turn[i][1] / turn[0][0] for turn in turns),
            )
            for i in range(len(arounds))
        ]

    def budget(memory: str, how: str) -> Any:
        """A budget whose plan is the last one."""
        made = coopsim.live.Budget(memory)
        if how == "Python alone":
            made.session._observer = None
        elif made.report()["no_observer"]:
            sys.exit(f"no observer: {made.report()['no_observer']}")
        for _ in range(WARM):
            with made.step():
                step()
        return made

    def does(made: Any) -> tuple[int, int]:
        """How many ops a step runs again, and how many values it evicts."""
        before = made.report()
        with made.step():
            step()
        again, evictions = (made.report()[key] - before[key] for key in ("recomputes", "evictions"))
        return again, evictions

    def own(made: Any) -> float:
        """What PyTorch takes for the ops that a plan runs again, in ms per step: the same calls by themselves."""
        rows = made.session.known.last.plan.rows
        at = {row.entry.op: i for i, row in enumerate(rows)}
        logged = log()
        calls = [logged[at[a.op]] for row in rows for a in row.before if isinstance(a, Recompute)]
        took = []
        for _ in range(ROUNDS * AT_ONCE):
            with DispatchBelowAutograd():
                begins = time.process_time_ns()
                for func, args, kwargs in calls:
                    func(*args, **kwargs)
                took.append(time.process_time_ns() - begins)
        return min(took) / 1e6

    def row(*cells: Any) -> None:
        cells = tuple(f"{cell:.2f}" if isinstance(cell, float) else cell for cell in cells)
        print("|", " | ".join(map(str, (*cells, *[""] * (8 - len(cells))))), "|", flush=True)

    print(f"{ops} ops per step; load of the machine: {os.getloadavg()[0]:.1f}\n")
    row(
        *("", "PyTorch's own, ms per step", "µs per op", "in a budget, ms per step", "of it beginning and end"),
        *("added per op, µs", "per op run again, µs", "beside PyTorch's own for these, µs"),
    )
    print("| --- " * 8 + "|")
    (plain, _), (empty, _) = measured(contextlib.nullcontext, Empty)
    row("an empty dispatch mode", plain, 1e3 * plain / ops, empty, "", 1e3 * (empty - plain) / ops)
    for how in ("Python alone", "the observer"):
        budgets = [budget(memory, how) for memory in BUDGETS.values()]
        done = [does(one) for one in budgets]
        (plain, _), *times = measured(contextlib.nullcontext, *(one.step for one in budgets))
        slope = 1e3 * (times[2][0] - times[1][0]) / (done[2][0] - done[1][0])
        alone = own(budgets[2])
        for name, (took, ends), (again, evictions) in zip(BUDGETS, times, done, strict=True):
            added = 1e3 * (took - plain - (again * slope / 1e3)) / ops
            last = (slope, slope - 1e3 * alone / again) if name == "35 % of it" else ()
            what = f"{how}, {name}: {again} ops run again, {evictions} evictions"
            row(what, plain, 1e3 * plain / ops, took, ends, added, *last)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)}
        sys.exit(subprocess.run([sys.executable, __file__, "measure"], env=environment, check=False).returncode)  # noqa: S603
