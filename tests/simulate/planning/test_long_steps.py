"""Long steps: the work of a plan grows with them and no faster, and parts that repeat are planned and placed once."""

import numpy as np
import pytest

from benchmarks.planning import KINDS
from coopsim.simulate.packing.as_they_come import as_they_come
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.items import Items
from coopsim.simulate.planning import make as making
from coopsim.simulate.planning import place, ranges
from coopsim.simulate.planning.at_once import LONG
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import accumulated, rnn

GRANULE = 512


def at_half(trace: Trace) -> Schedule:
    return replay(trace, "foresight-offline", peak_bytes(trace, GRANULE) // 2, steps=1)


def drafts_of(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> list[Draft]:
    """What the plan for half the peak is made with. It has to be found."""
    found: list[Draft] = []

    def noted(*arguments: object, **how: object) -> Draft:
        found.append(Draft(*arguments, **how))
        return found[-1]

    monkeypatch.setattr(making, "Draft", noted)
    assert at_half(trace).header["planned_steps"] == 1
    return found


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in ("transformer", "RNN", "U-Net") else ()) for kind in KINDS],
)
def test_the_work_for_an_op_is_the_same_in_a_long_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops that dry runs run, for each op of the step."""
    counts = []
    for n in (5_500, 50_000):
        trace = KINDS[kind](n)
        counts.append(sum(draft.ops_run for draft in drafts_of(trace, monkeypatch)) / trace.n_ops)
    assert counts[1] <= 1.3 * counts[0]


def test_micro_batches_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, which makes the gradients, and one of the others; a plan for all of them, and one for half as many."""
    few, many = (drafts_of(accumulated(n), monkeypatch) for n in (8, 16))
    assert len(few) == len(many)
    assert sum(d.dry_runs for d in few) == sum(d.dry_runs for d in many)


def test_each_micro_batch_more_costs_the_same() -> None:
    """The judge is content, too."""
    costs, budget = [], peak_bytes(accumulated(6), GRANULE) // 2
    for n in (4, 5, 6):
        trace = accumulated(n)
        schedule = replay(trace, "foresight-offline", budget, steps=1)
        assert validate(schedule, trace) == []
        costs.append(schedule.header["recompute_cost_ns"])
    assert 0 < costs[1] - costs[0] == costs[2] - costs[1]


def test_parts_with_addresses_apart_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_AT_ONCE", 150)
    trace = accumulated(6)
    schedule = at_half(trace)
    assert schedule.header["planned_steps"] == 1
    assert validate(schedule, trace) == []


def test_of_very_many_what_lasts_leaves_no_gaps_between_what_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients that come as activations of a deep network leave; then something larger than each of those."""
    monkeypatch.setattr(place, "_AT_ONCE", 0)
    bytes_from_until = [(2, t, 20 - t) for t in range(4)] + [(1, 20 - t, 90) for t in range(4)] + [(6, 30, 40)]
    lasting = np.array([until == 90 for _, _, until in bytes_from_until])
    residencies = np.array([(k, *row, 0) for k, row in enumerate(bytes_from_until)])
    at = place.place(residencies, lasting, np.zeros(0, np.int64), 12)
    assert at is not None
    assert sorted(at[lasting].tolist()) == [8, 9, 10, 11]


@pytest.mark.parametrize("kind", ["transformer", "chain", "RNN", "U-Net"])
def test_many_at_once_cost_about_what_one_by_one_do(kind: str) -> None:
    """In a step that is short enough to be planned one by one, and in one that is not."""
    short, long = KINDS[kind](2_400), KINDS[kind](8_000)
    assert short.n_ops < LONG < long.n_ops
    costs = [at_half(trace).header["recompute_cost_ns"] / trace.cost_ns.sum() for trace in (short, long)]
    assert costs[1] <= 1.01 * costs[0]


@pytest.mark.parametrize("cells", [300, 1000])
def test_what_is_cheap_to_make_of_something_wide_stays_where_that_leaves(cells: int) -> None:
    """The states of an RNN are cheap to make from its gates; without either, each needs all that came before."""
    trace = rnn(cells, loss_of_states=True)
    schedule = at_half(trace)
    coop = replay(trace, "coop", peak_bytes(trace, GRANULE) // 2, steps=1)
    assert schedule.header["planned_steps"] == 1
    assert schedule.header["recompute_cost_ns"] < 0.8 * coop.header["recompute_cost_ns"]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_placed_as_it_comes_is_in_the_lowest_gap(seed: int) -> None:
    """As greedy placement in that order has it, which knows all that is alive with an item."""
    dice = np.random.default_rng(seed)
    start = dice.integers(0, 60, 80)
    items = Items.of(4 * dice.integers(1, 50, 80), start, start + dice.integers(1, 40, 80))
    around = np.array([(40, 80, 20), (80, 120, 50), (160, 200, 9)])
    wanted = fit(items, np.argsort(start, kind="stable"), best=False, around=around)
    top = height(items, wanted)
    assert as_they_come(items, around, top).tolist() == wanted.tolist()
    assert as_they_come(items, around, top - 4) is None
    both_ends = as_they_come(items, around, 2 * top, high=dice.random(80) < 0.5)
    for i, at in enumerate(both_ends.tolist()):
        there = (items.start < items.end[i]) & (items.end > items.start[i]) & (np.arange(80) != i)
        assert ((both_ends >= at + items.bytes[i]) | (both_ends + items.bytes <= at) | ~there).all()
        for low, high, until in around.tolist():
            assert at >= high or at + items.bytes[i] <= low or until <= items.start[i]


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_gaps_are_those_between_what_is_alive_with_an_item(seed: int, best: bool) -> None:
    """Against a look at everything that is placed, for each item: the lowest gap, or the smallest."""
    dice = np.random.default_rng(seed)
    start = dice.integers(0, 60, 80)
    items = Items.of(dice.integers(1, 50, 80), start, start + dice.integers(1, 40, 80), 2 ** dice.integers(0, 3, 80))
    order, around = dice.permutation(80), [(30, 70, 20), (70, 75, 50), (90, 99, 9)]
    placed = [(-1, until, low, high) for low, high, until in around]
    for i, offset in zip(order.tolist(), fit(items, order, best=best, around=around)[order].tolist(), strict=True):
        size, a, b, step = (int(x[i]) for x in (items.bytes, items.start, items.end, items.alignment))
        gaps, floor = [], 0
        for _, _, low, high in sorted((p for p in placed if p[0] < b and a < p[1]), key=lambda p: p[2]):
            at = -(-floor // step) * step
            if low - at >= size:
                gaps.append((low - at, at))
            floor = max(floor, high)
        wanted = (min(gaps)[1] if best else gaps[0][1]) if gaps else -(-floor // step) * step
        assert offset == wanted
        placed.append((a, b, offset, offset + size))


@pytest.mark.parametrize("seed", range(6))
def test_sums_and_maxima_over_ranges(seed: int) -> None:
    dice = np.random.default_rng(seed)
    numbers = dice.integers(-20, 40, 50)
    tree = ranges.new_ranges(50)
    ranges.fill(tree, numbers, 0, 50)
    changed = numbers.copy()
    changed[10:30] = dice.integers(-20, 40, 20)
    ranges.fill(tree, changed, 10, 30)
    for first, last, limit in dice.integers(0, 51, (60, 3)).tolist():
        part = np.maximum(changed[first:last], 0)
        assert ranges.sum_up_to(tree, first, last, limit) == np.minimum(part, limit).sum()
        assert ranges.most(tree, first, last) == part.max(initial=0)
