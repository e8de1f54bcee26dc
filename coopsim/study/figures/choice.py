"""What the caller chooses of a figure: which policies, in which order, what they are called, and in which colours."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.study.figures import style
from coopsim.study.figures.style import Look

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PolicyChoice:
    """policies: those to draw, by name, in this order; empty: all. order: those to come first, of all that are drawn.

    labels: what to call some, colors: their colours, both by name. A policy keeps its colour and marker whatever it is
    called and whichever others are drawn. CoopsimError where one is named that is not there, or for no colour.
    """

    policies: Sequence[str] = ()
    order: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    colors: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, color in self.colors.items():
            from matplotlib.colors import is_color_like

            if not is_color_like(color):
                raise CoopsimError(f"colors: {color!r}, for {name}, is no colour that matplotlib knows")

    def names(self, there: Iterable[str], default: Sequence[str] = ()) -> list[str]:
        """The policies to draw, in order; `default`: the order where none is chosen, else that of style.toml."""
        known = list(dict.fromkeys(there))
        for name in (*self.policies, *self.order, *self.labels, *self.colors):
            if name not in known:
                raise unknown("policy", name, known)
        rest = list(self.policies) or list(default) or style.order(known)
        return list(dict.fromkeys((*(name for name in self.order if name in rest), *rest)))

    def rows(self, df: "pd.DataFrame") -> "pd.DataFrame":
        """The rows of a table that are drawn."""
        return df[df["policy"].isin(self.names(df["policy"]))] if self.policies else df

    def looks(self, there: Iterable[str]) -> dict[str, Look]:
        """The look of each policy that is there, drawn or not."""
        return {
            name: replace(look, label=self.labels.get(name, look.label), color=self.colors.get(name, look.color))
            for name, look in style.policies(there).items()
        }


ALL = PolicyChoice()
