"""Limit what a compiled program saves for its backward pass."""

from typing import Any

from coopsim.record.observe import torch_private

_config: Any = torch_private.get("torch._functorch.config")  #: of AOTAutograd's partitioner


class Partitioner:
    """Sets activation_memory_budget to `budget` before each graph is compiled; None leaves the script's.

    `own`: the values that the script itself had set, other than PyTorch's default, each once.
    """

    def __init__(self, budget: float | None) -> None:
        self._budget = budget
        self.own: list[float] = []

    def set(self) -> None:
        """Set the budget, and note the value that the script had set; the caller calls it before each compilation."""
        found = _config.activation_memory_budget
        if found not in (1.0, self._budget, *self.own):
            self.own.append(found)
        if self._budget is not None:
            _config.activation_memory_budget = self._budget
