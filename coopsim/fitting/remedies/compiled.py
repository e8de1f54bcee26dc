"""Remedy "compiled": limit what a compiled program saves for its backward pass, by the partitioner's memory budget.

A budget here is a value of AOTAutograd's activation_memory_budget: a fraction, 0 to 1, of what would be saved without.
"""

from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedy import Remedy

#: Fractions of the bytes that the partitioner would save, in the order of trials. The peak is not monotonic in them.
_BUDGETS = (0.9, 0.7, 0.5, 0.3, 0.1)


def propose(bench: Bench) -> None:
    """Propose the largest of five budgets that suffices.

    Nothing for a script that compiles nothing.
    """
    if bench.survey.report.compiled_graphs:
        bench.first_of(proposal(bench, budget) for budget in _BUDGETS)


def least(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet, with the smallest budget; None if the script compiles nothing."""
    return proposal(bench, _BUDGETS[-1]) if bench.survey.report.compiled_graphs else None


def proposal(bench: Bench, budget: float) -> Remedy:
    """Return the remedy, not tried yet, with this budget. Kernels are fused differently, which may change last bits."""
    text = f"activation_memory_budget = {budget}: kernels are fused otherwise, which may change last bits"
    changes = Changes(activation_memory_budget=budget)
    return bench.proposal("compiled", text, lines(budget), changes, same=False, after_model=True)


def lines(budget: float) -> tuple[str, ...]:
    """Return the lines that set activation_memory_budget to `budget`, 0 to 1, before the first compiled call."""
    return (
        "import torch._functorch.config as functorch_config",
        f"functorch_config.activation_memory_budget = {budget:g}",
    )
