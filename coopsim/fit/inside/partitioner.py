"""What AOTAutograd's partitioner may save for the backward pass."""

from torch._functorch import config


class Partitioner:
    """Sets its budget before each graph is compiled, over the script's own. None: leaves it.

    `own`: what the script itself had set, other than PyTorch's default, each value once.
    """

    def __init__(self, budget: float | None) -> None:
        self._budget = budget
        self.own: list[float] = []

    def set(self) -> None:
        """A graph is about to be compiled."""
        found = config.activation_memory_budget
        if found not in (1.0, self._budget, *self.own):
            self.own.append(found)
        if self._budget is not None:
            config.activation_memory_budget = self._budget
