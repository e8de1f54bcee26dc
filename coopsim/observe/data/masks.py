"""What boolean masks, `nonzero`, `unique` and the like keep where nothing is known of their data."""

from dataclasses import dataclass
from typing import Literal

Choice = Literal["", "all", "half", "none"]
CHOICES = ("all", "half", "none")
#: The lower bound: as "", but what nothing is known of keeps nothing.
LOWER = "lower"


@dataclass(frozen=True)
class Masks:
    """`share`: what they keep of their elements. `even`: what a router chooses is taken for even, whatever the share."""

    share: float
    even: bool

    @classmethod
    def of(cls, choice: str) -> "Masks":
        """As the user says it; "" for the default, the upper bound with even routing."""
        if choice in ("", LOWER):
            return cls(0.0 if choice else 1.0, even=True)
        return cls({"all": 1.0, "half": 0.5, "none": 0.0}[choice], even=False)
