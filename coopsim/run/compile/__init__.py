"""A budget in bytes for what a compiled program saves for its backward pass.

Needs no torch until a solver is made.
"""

from typing import TYPE_CHECKING

from coopsim.base import budget

if TYPE_CHECKING:
    from coopsim.run.compile.choosing import Solver

__all__ = ["solver"]


def solver(memory: str, *, outside: str = "") -> "Solver":
    """What decides for `torch._functorch.config.activation_memory_budget_solver`.

    memory: what PyTorch's allocator may have allocated at the peak of forward and backward passes, as "8GiB".
    outside: of this, what is allocated after compilation and stays, other than states of PyTorch's own optimizers:
    as the gradients that `zero_grad(set_to_none=False)` keeps.
    As PyTorch asks no solver otherwise, an `activation_memory_budget` of 1 is set to choosing.ASK.
    Raises CoopsimError for an amount that is none, or a PyTorch without such solvers.
    """
    memory_bytes = budget.parse(memory, None, "memory")
    outside_bytes = budget.parse(outside, None, "outside") if outside else 0
    from coopsim.run.compile.choosing import ask

    return ask(memory_bytes, outside_bytes)
