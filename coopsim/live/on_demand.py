"""A step without a plan: values are evicted on demand, and missing ones are made again when an op asks for them."""

from collections.abc import Iterable
from typing import Any

from coopsim.live.cells import Cell
from coopsim.live.kinds import Kind
from coopsim.live.state import Context, LeftPlan, State


class OnDemand(State):
    """Runs each op by itself, to the end of the step.

    kind: that the step is of, or was taken to be of. left: why it has left its plan; None if the kind has none.
    """

    def __init__(self, context: Context, kind: Kind, left: LeftPlan | None = None) -> None:
        super().__init__(context)
        self.kind, self.left = kind, left

    def begin(self, cells: Iterable[Cell] = ()) -> None:
        """Go on without a plan. cells: of the plan, by which the step went until now."""
        context = self._context
        context.room.go_on_demand()
        adopted = context.cells.adopt(cells)
        if context.room.limit is not None:
            for cell in adopted:
                context.room.roots.read(value for call in cell.makers.values() for value in call.reads)

    def __torch_dispatch__(self, func: Any, _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op, with its operands brought back and room made for its results."""
        out = self._context.runner.run(func, args, kwargs, lambda: func(*args, **kwargs)).out
        self._count(out)
        return out
