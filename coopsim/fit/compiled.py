"""What a compiled program saves for its backward pass: the partitioner's budget, where torch.compile is used."""

from collections.abc import Iterator

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy

#: Shares of the bytes that the partitioner would save. The peak is not monotonic in them: the largest is tried first.
_BUDGETS = (0.9, 0.7, 0.5, 0.3, 0.1)


def find(case: Case) -> Iterator[Remedy]:
    """The largest of the budgets that suffices."""
    if not case.survey.report.compiled_graphs:
        return
    for budget in _BUDGETS:
        done = case.verify(proposal(case, budget))
        if done is not None:
            yield done
            return


def least(case: Case) -> Remedy | None:
    """The smallest budget; None if the script compiles nothing."""
    return proposal(case, _BUDGETS[-1]) if case.survey.report.compiled_graphs else None


def proposal(case: Case, budget: float) -> Remedy:
    """Save so much. Kernels are fused otherwise then, which may change last bits."""
    text = f"activation_memory_budget = {budget}: kernels are fused otherwise, which may change last bits"
    changes = Changes(activation_memory_budget=budget)
    return case.proposal("compiled", text, lines(budget), changes, same=False, after_model=True)


def lines(budget: float) -> tuple[str, ...]:
    """To paste before the first call of what is compiled."""
    return (
        "import torch._functorch.config as functorch_config",
        f"functorch_config.activation_memory_budget = {budget:g}",
    )
