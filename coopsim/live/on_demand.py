"""A step without a plan: values are evicted on demand, and missing ones are made again when an op asks for them."""

from collections.abc import Iterable
from typing import Any

from coopsim.live.plan import STAYS
from coopsim.live.signatures import Signature
from coopsim.live.state import Context, LeftPlan, State
from coopsim.live.tracked import TrackedStorage


class OnDemand(State):
    """Runs each op by itself (op_runner.py), with room made for it (room.py), to the end of the step.

    signature: that the step is of, or was taken to be of. left: why it has left its plan; None if the signature has
    none.
    """

    def __init__(self, context: Context, signature: Signature, left: LeftPlan | None = None) -> None:
        super().__init__(context)
        self.signature, self.left = signature, left

    def begin(self, storages: Iterable[TrackedStorage] = ()) -> None:
        """Go on without a plan, and with its tracked storages if the step went by one until now."""
        context, storages = self._context, list(storages)
        context.room.go_on_demand((tracked, version) for tracked in storages for version in tracked.held)
        for tracked in storages:
            if context.residency.ledger.role(tracked.key) in STAYS:  # updated by plan: nothing has kept what that read
                tracked.makers.clear()
        adopted = context.storages.adopt(storages)
        if context.room.limit is not None:
            for tracked in adopted:
                context.room.roots.read(value for call in tracked.makers.values() for value in call.reads)

    def __torch_dispatch__(self, func: Any, _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op, with its operands brought back and room made for its results."""
        out = self._context.runner.run(func, args, kwargs, lambda: func(*args, **kwargs)).out
        self._count(out)
        return out
