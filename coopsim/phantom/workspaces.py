"""What cuDNN asks for beside tensors: workspaces by the rules of csrc/cudnn_sizes.c, or none."""

from typing import get_args

from coopsim.base.run_options import WorkspaceChoice
from coopsim.cards.errors import PhantomError

#: Compute capabilities whose cards were measured and agree with the rules (docs/phantom-gpu.md).
_MEASURED = ("9.0",)


def by_rule(choice: WorkspaceChoice, compute_capability: str) -> bool:
    """Return whether a card's cuDNN asks for workspaces. Raises PhantomError for a choice that there is not."""
    if choice not in get_args(WorkspaceChoice):
        raise PhantomError(f"unknown workspaces {choice!r}; they are rule or none")
    return choice == "rule" or (not choice and compute_capability in _MEASURED)
