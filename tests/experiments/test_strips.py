"""Strips of memory: what lay where before a row of a schedule, and pictures in which nothing is cut off."""

from pathlib import Path

import pytest

from coopsim.base.types import Action, CoopsimError
from coopsim.simulate.replay import replay
from coopsim.study.figures import save
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import make
from notebooks import strips
from notebooks.strips import Frame, StripBlock

MIB = 1 << 20
LABELS = {0: "input", 9: "wide"}
KINDS = {0: "non-evictable", 9: "new"} | {k: "cheap" if k % 2 else "expensive" for k in range(1, 9)}


@pytest.fixture(scope="module")
def dtr() -> Schedule:
    return replay(make("synth:holes:4"), "dtr-oneflow", 10 * MIB, steps=1)


def test_what_lies_where(dtr: Schedule) -> None:
    row = strips.rows_of_searches(dtr)[0]
    assert dtr.action[row] == Action.ALLOC
    assert dtr.storage[row] == 9
    before = strips.blocks(dtr, row, LABELS, KINDS)
    assert [(p.label, p.bytes // MIB) for p in before if p.label] == [("input", 1), ("s4", 1), ("s6", 1), ("s8", 1)]
    assert [(p.address // MIB, p.bytes // MIB) for p in before if p.kind == "free"] == [(1, 3), (5, 1), (7, 1), (9, 1)]
    after = strips.blocks(dtr, row + 1, LABELS, KINDS)
    assert StripBlock(MIB, 3 * MIB, "wide", "new") in after


def test_pieces_fill_the_budget_at_every_row(dtr: Schedule) -> None:
    for row in range(len(dtr) + 1):
        at = 0
        for p in strips.blocks(dtr, row, LABELS, KINDS):
            assert p.address == at
            at += p.bytes
        assert at == 10 * MIB


def test_a_counter_has_no_strips() -> None:
    schedule = replay(make("synth:chain:4"), "dtr", 8 * MIB, "counter", steps=1)
    with pytest.raises(CoopsimError, match="no addresses"):
        strips.used(schedule, len(schedule))


def test_a_picture(dtr: Schedule, tmp_path: Path) -> None:
    row = strips.rows_of_searches(dtr)[0]
    noted = [StripBlock(0, 4 * MIB, "a", "expensive", "1.00"), StripBlock(4 * MIB, 6 * MIB, note="0")]
    frames = [
        Frame("before", strips.blocks(dtr, row, LABELS, KINDS), victims=frozenset({"s4"})),
        Frame("a window", noted, window=(0, 4 * MIB)),
    ]
    figure = strips.draw(frames, title="strips")
    figure.draw_without_rendering()
    page = figure.bbox
    for ax in figure.axes:
        for text in [*ax.texts, ax.title, ax.xaxis.label]:
            if text.get_text():
                box = text.get_window_extent()
                assert page.x0 <= box.x0, text
                assert box.x1 <= page.x1, text
                assert page.y0 <= box.y0, text
                assert box.y1 <= page.y1, text
    words = [t.get_text() for t in figure.legends[0].get_texts()]
    assert words == ["cannot be evicted", "expensive to recompute", "free", "is evicted", "window"]
    first, second = (save(strips.draw(frames), tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert first == second


def test_nothing_to_draw() -> None:
    with pytest.raises(CoopsimError, match="no moment"):
        strips.draw([])
