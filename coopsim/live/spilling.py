"""A step without a plan: what finds no room goes to the host, and comes back when an op asks for it."""

from collections.abc import Iterable
from typing import Any

from coopsim.live.signatures import Signature
from coopsim.live.state import Context, LeftPlan, State
from coopsim.live.tracked import TrackedStorage


class Spilling(State):
    """Runs each op by itself (op_runner.py), with room made for it (room.py), to the end of the step.

    signature: that the step is of, or was taken to be of. left: why it has left its plan; None if the signature has
    none.
    """

    def __init__(self, context: Context, signature: Signature, left: LeftPlan | None = None) -> None:
        super().__init__(context)
        self.signature, self.left = signature, left

    def begin(self, storages: Iterable[TrackedStorage] = ()) -> None:
        """Go on without a plan. storages: of the plan, if the step went by one: what that has evicted is made again."""
        context, storages = self._context, list(storages)
        context.room.go_without_plan()
        context.runner.keeps_calls = False
        context.storages.adopt(storages)
        context.values.leave_plan(storages)

    def __torch_dispatch__(self, func: Any, _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op, with its operands brought back and room made for its results."""
        out = self._context.runner.run(func, args, kwargs, lambda: func(*args, **kwargs)).out
        self._count(out)
        return out
