"""What boolean masks, `nonzero`, `unique` and the like keep where nothing is known of their data."""

from dataclasses import dataclass

#: The lower bound: as "", but what nothing is known of keeps nothing.
LOWER = "lower"


@dataclass(frozen=True)
class Masks:
    """What is assumed of masks. `share`: the fraction of their elements that they keep, 0 to 1.

    `even`: a router's choices are taken to be even, whatever the share.
    """

    share: float
    even: bool

    @classmethod
    def of(cls, choice: str) -> "Masks":
        """Return what a choice means: "all", "half" or "none" is that share, of a router's choices too.

        "", the default, is all, and LOWER none, both with even routing. Raises KeyError for any other.
        """
        if choice in ("", LOWER):
            return cls(0.0 if choice else 1.0, even=True)
        return cls({"all": 1.0, "half": 0.5, "none": 0.0}[choice], even=False)
