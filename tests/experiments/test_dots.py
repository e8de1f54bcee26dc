"""Dots in rows: every text can be read, every value is where it belongs, what does not fit is marked."""

import math

import pytest

from coopsim.base.types import CoopsimError
from coopsim.study.figures import lines, style
from experiments.figures import dots
from experiments.figures.dots import Dot
from tests.study.figures.drawn import table, texts_are_inside_and_apart

NAMES = ("dtr-oneflow", "coop")


def some(panels: int = 1) -> list[Dot]:
    """Two cases; DTR fits in part of one and not in the other."""
    found = []
    for k in range(panels):
        found += [
            Dot(f"panel {k}", "one case", "coop", 10.0 + k, 9.0, 12.0),
            Dot(f"panel {k}", "one case", "dtr-oneflow", 30.0, 30.0, 31.0 + k, part=True),
            Dot(f"panel {k}", "another", "coop", 20.0, 20.0, 20.0),
            Dot(f"panel {k}", "another", "dtr-oneflow", math.nan),
        ]
    return found


@pytest.mark.parametrize(("panels", "columns", "size"), [(1, 1, "column"), (3, 2, "page"), (1, 1, "slide")])
def test_every_text_can_be_read(panels: int, columns: int, size: str) -> None:
    figure = dots.draw(some(panels), "overhead (%)", style.policies(NAMES), columns=columns, size=size)
    texts_are_inside_and_apart(figure)
    assert [ax.get_title(loc="left") for ax in figure.axes if ax.axison] == [f"panel {k}" for k in range(panels)]


def test_values_are_where_they_belong() -> None:
    looks = style.policies(NAMES)
    (ax,) = dots.draw(some(), "overhead (%)", looks).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["one case", "another"]
    of = {n: [x for x in ax.lines if x.get_marker() == looks[n].marker] for n in NAMES}
    assert [(x.get_xdata()[0], round(x.get_ydata()[0])) for x in of["coop"]] == [(10, 0), (20, 1)]
    (dtr,) = of["dtr-oneflow"]
    assert dtr.get_markerfacecolor() == "white"
    (cross,) = [x for x in ax.lines if x.get_marker() == "x"]
    assert cross.get_color() == looks["dtr-oneflow"].color
    assert round(cross.get_ydata()[0]) == 1


def test_one_scale_for_all_panels() -> None:
    looks = style.policies(NAMES)
    apart, same = (dots.draw(some(2), "x", looks, columns=2, one_scale=one).axes for one in (False, True))
    assert apart[0].get_xlim() != apart[1].get_xlim()
    assert same[0].get_xlim() == same[1].get_xlim()


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(CoopsimError, match="no dots"):
        dots.draw([], "x", style.policies(NAMES))
    with pytest.raises(CoopsimError, match="no look"):
        dots.draw(some(), "x", style.policies(["coop"]))


@pytest.mark.parametrize("what", list(lines.QUANTITIES))
def test_eight_small_panels_can_be_read(what: str) -> None:
    import pandas as pd

    df = pd.concat([table().assign(trace=f"model-{k}") for k in range(8)], ignore_index=True)
    texts_are_inside_and_apart(lines.draw(df, what, size="page"))
