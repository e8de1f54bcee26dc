"""The time of planned steps by the phantom's clock.

Ops take their cost in the trace, the first time and again; those that the trace leaves out, as views, take none. Copies
on the card (of older versions, of statistics that an op updates when it is run again) take what their bytes take.
Copies between card and host take what the link takes; the phantom counts these itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


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
    from coopsim.live.device import cost_model
    from coopsim.live.follow import Follow
    from coopsim.live.following import Following
    from coopsim.live.host.area import CudaEngines
    from coopsim.live.plan import Plan, Row
    from coopsim.live.residency import Residency
    from coopsim.live.tracked import Call
    from coopsim.live.values import Values
    from coopsim.observe.torch_private import raw_stream
    from coopsim.phantom.control import Control

    control, model = Control(), cost_model("cuda")
    makes: dict[tuple[int, int], int | None] = {}  # by value, the cost of the op that makes it
    costs: list[int | None] = []  # of what runs, the innermost last; None: it takes no time, on the host neither
    begin, run, wait = Follow.begin, Following._run, CudaEngines.wait
    again, copy, move = Values.run, Values.copy, Residency.move
    allocate, attempt = Values.allocate, Values.attempt

    def at(cost: int | None, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        costs.append(cost)
        try:
            return call(*args, **kwargs)
        finally:
            costs.pop()

    def timing(cost: int | None, call: Callable[..., Any], *args: Any) -> Any:
        if cost is None:
            return call(*args)
        control.op_begins()
        out = call(*args)
        control.op_ends(raw_stream(0), cost)
        return out

    def cost_of(plan: Plan, op: int) -> int | None:
        return int(plan.trace.cost_ns[op]) if op >= 0 else None

    def beginning(self: Follow, *rest: Any) -> None:
        makes.clear()
        makes.update((value, cost_of(self.plan, op)) for value, op in self.plan._maker.items())
        begin(self, *rest)

    def running(self: Following, row: Row, *rest: Any) -> Any:
        assert self.signature.plan is not None
        return at(cost_of(self.signature.plan, row.entry.op), run, self, row, *rest)

    def running_again(self: Values, call: Call, *rest: Any) -> None:
        tracked, version = call.writes[0]
        at(makes.get((tracked.number, version), 0), again, self, call, *rest)

    def copying(self: Values, storage: torch.UntypedStorage, *rest: Any) -> Any:
        return at(model.moving(2 * storage.nbytes()), copy, self, storage, *rest)

    def moving(self: Residency, storage: torch.UntypedStorage) -> None:
        timing(model.moving(2 * storage.nbytes()), move, self, storage)

    def allocating(self: Values, *args: Any, **kwargs: Any) -> Any:
        return at(0, allocate, self, *args, **kwargs)

    def attempting(self: Values, *args: Any) -> Any:
        return timing(costs[-1] if costs else 0, attempt, self, *args)

    def now() -> int:
        torch.cuda.synchronize()
        return control.now_ns

    clock = Clock(now)

    def waiting(self: CudaEngines, way: int, end: Any) -> None:
        before = max(control.stream_end_ns(raw_stream(0)), control.now_ns)
        wait(self, way, end)
        clock.stall_ns += max(control.stream_end_ns(raw_stream(0)) - before, 0)

    ours: dict[Any, dict[str, Any]] = {
        Follow: {"begin": beginning},
        Following: {"_run": running},
        Values: {"run": running_again, "copy": copying, "allocate": allocating, "attempt": attempting},
        Residency: {"move": moving},
        CudaEngines: {"wait": waiting},
        observer: {"find": lambda **_: (None, "ops are timed in Python")},
    }
    with ExitStack() as replaced:
        for where, what in ours.items():
            replaced.enter_context(patch.multiple(where, **what))
        yield clock
