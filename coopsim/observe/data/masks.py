"""What boolean masks, `nonzero`, `unique` and the like keep where nothing is known of their data."""

from dataclasses import dataclass
from typing import Literal, cast

from coopsim.types import CoopsimError

Choice = Literal["", "all", "half", "none"]
CHOICES = ("all", "half", "none")
#: The lower bound: as "", but what nothing is known of keeps nothing.
LOWER = "lower"


def checked(choice: str) -> Choice:
    """Return what a user has said. Raises CoopsimError for anything but "" and CHOICES."""
    if choice not in ("", *CHOICES):
        raise CoopsimError(f"unknown masks {choice!r}; it is {', '.join(CHOICES)}")
    return cast("Choice", choice)


@dataclass(frozen=True)
class Masks:
    """`share`: what they keep of their elements. `even`: a router's choices are taken for even, whatever the share."""

    share: float
    even: bool

    @classmethod
    def of(cls, choice: str) -> "Masks":
        """Return what a choice means: "" is the default, the upper bound with even routing."""
        if choice in ("", LOWER):
            return cls(0.0 if choice else 1.0, even=True)
        return cls({"all": 1.0, "half": 0.5, "none": 0.0}[choice], even=False)
