"""What cuDNN asks for beside tensors: workspaces by the rules of csrc/cudnn_sizes.c, or none."""

from typing import Literal

from coopsim.cards.errors import PhantomError

#: "rule", "none", or "" for what is nearer to measurements of cards of that compute capability.
Choice = Literal["", "rule", "none"]
CHOICES: tuple[Choice, ...] = ("rule", "none")

#: Compute capabilities whose cards were measured and agree with the rules (docs/phantom-gpu.md).
_MEASURED = ("9.0",)


def by_rule(choice: Choice, compute_capability: str) -> bool:
    """Return whether a card's cuDNN asks for workspaces. Raises PhantomError for a choice that there is not."""
    if choice and choice not in CHOICES:
        raise PhantomError(f"unknown workspaces {choice!r}; they are rule or none")
    return choice == "rule" or (not choice and compute_capability in _MEASURED)
