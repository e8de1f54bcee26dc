"""Host time that a budget adds to each op: kernels of the phantom GPU do nothing, so all time is the host's.

Processor time of the least of many steps, so that what else the machine does matters little. A table in Markdown.

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

    def least(around: Callable[[], Any]) -> float:
        best = float("inf")
        for _ in range(STEPS):
            start = time.process_time()
            with around():
                step()
            best = min(best, time.process_time() - start)
        return best

    plain = least(contextlib.nullcontext)
    print(f"{ops} ops a step, {1e6 * plain / ops:.1f} µs each without a budget")
    print("| what runs | added to each op, µs |")
    print("| --- | --- |")
    rows: list[tuple[str, Callable[[], Any]]] = [("an empty dispatch mode", Empty)]
    for share, room in (("1TiB", "with room for everything"), ("50%", "at half the memory")):
        for how in ("Python alone", "with the observer"):
            budget = coopsim.live.Budget(share)
            if how == "Python alone":
                budget.session._observer = None
            elif budget.report()["no_observer"]:
                print(f"no observer: {budget.report()['no_observer']}")
                continue
            for _ in range(6):
                with budget.step():
                    step()
            rows.append((f"a step by plan, {room}, {how}", budget.step))
    for what, around in rows:
        print(f"| {what} | {1e6 * (least(around) - plain) / ops:.1f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)}
        sys.exit(subprocess.run([sys.executable, __file__, "measure"], env=environment, check=False).returncode)  # noqa: S603
