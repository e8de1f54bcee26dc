"""The time of planned steps by the phantom's clock: ops take their roofline cost, copies what the link takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def timed() -> Iterator[Callable[[], int]]:
    """Inside, planned ops take time, and what is yielded gives the time by which all so far is done, in ns.

    Without the observer (CXX=/nowhere), as Python sees every op.
    """
    import torch

    from coopsim.live.follow import Follow
    from coopsim.live.plan import Row
    from coopsim.live.step import Step
    from coopsim.live.values import Values
    from coopsim.observe.torch_private import raw_stream
    from coopsim.phantom.control import Control

    control = Control()
    costs: list[int] = []  # of the op that runs, at most one
    run, act, attempt = Step._run_planned, Follow._act, Values.attempt

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

    Step._run_planned, Follow._act, Values.attempt = running, acting, attempting  # type: ignore[method-assign]
    try:
        yield now
    finally:
        Step._run_planned, Follow._act, Values.attempt = run, act, attempt  # type: ignore[method-assign]
