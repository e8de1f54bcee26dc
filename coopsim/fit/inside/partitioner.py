"""What AOTAutograd's partitioner may save for the backward pass."""

from typing import Any

from coopsim.observe import torch_private

_config: Any = torch_private.get("torch._functorch.config")


class Partitioner:
    """Sets its budget before each graph is compiled, over the script's own. None: leaves it.

    `own`: what the script itself had set, other than PyTorch's default, each value once.
    """

    def __init__(self, budget: float | None) -> None:
        self._budget = budget
        self.own: list[float] = []

    def set(self) -> None:
        """A graph is about to be compiled."""
        found = _config.activation_memory_budget
        if found not in (1.0, self._budget, *self.own):
            self.own.append(found)
        if self._budget is not None:
            _config.activation_memory_budget = self._budget
