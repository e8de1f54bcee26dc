"""The time of planned steps by the phantom's clock: ops take their roofline cost, copies what the link takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Clock:
    """now: the time by which all so far is done, in ns. stall_ns: how long ops have waited for copies so far."""

    now: Callable[[], int]
    stall_ns: int = 0


@contextmanager
def timed() -> Iterator[Clock]:
    """Inside, planned ops take time on the clock that is yielded. Sessions made there follow every op in Python."""
    import torch

    from coopsim.live import observer
    from coopsim.live.engines import CudaEngines
    from coopsim.live.follow import Follow
    from coopsim.live.plan import Row
    from coopsim.live.step import Step
    from coopsim.live.values import Values
    from coopsim.observe.torch_private import raw_stream
    from coopsim.phantom.control import Control

    control = Control()
    costs: list[int] = []  # of the op that runs, at most one
    run, act, attempt, wait = Step._run_planned, Follow._act, Values.attempt, CudaEngines.wait
    find = observer.find

    def around(self: Follow, op: int, execute: Callable[[], Any]) -> Any:
        costs.append(int(self.plan.trace.cost_ns[op]) if op >= 0 else 0)
        try:
            return execute()
        finally:
            costs.pop()

    def running(self: Step, follow: Follow, row: Row, *rest: Any) -> Any:
        return around(follow, row.entry.op, lambda: run(self, follow, row, *rest))

    def acting(self: Follow, action: Any) -> None:
        around(self, getattr(action, "op", -1), lambda: act(self, action))

    def attempting(self: Values, func: Any, execute: Callable[[], Any], leave: Any) -> Any:
        control.op_begins()
        out = attempt(self, func, execute, leave)
        control.op_ends(raw_stream(0), costs[-1] if costs else 0)
        return out

    def now() -> int:
        torch.cuda.synchronize()
        return control.now_ns

    clock = Clock(now)

    def waiting(self: CudaEngines, way: int, end: Any) -> None:
        before = max(control.stream_end_ns(raw_stream(0)), control.now_ns)
        wait(self, way, end)
        clock.stall_ns += max(control.stream_end_ns(raw_stream(0)) - before, 0)

    Step._run_planned, Follow._act, Values.attempt = running, acting, attempting  # type: ignore[method-assign]
    CudaEngines.wait = waiting  # type: ignore[method-assign]
    observer.find = lambda: (None, "ops are timed in Python")
    try:
        yield clock
    finally:
        Step._run_planned, Follow._act, Values.attempt = run, act, attempt  # type: ignore[method-assign]
        CudaEngines.wait = wait  # type: ignore[method-assign]
        observer.find = find
