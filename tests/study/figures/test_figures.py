"""Figures: bands from rows, residencies from actions, and pictures in which nothing is cut off, equal byte for byte."""

import subprocess
import sys
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coopsim.base.types import Action, CoopsimError, Role
from coopsim.cards.link import Link
from coopsim.simulate import policies
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import simulate
from coopsim.simulate.timeline.params import Params
from coopsim.simulate.timeline.work import TaskKind
from coopsim.study import figures, tables
from coopsim.study.figures import FigureFiles, feasibility, lines, memory_map, save, style
from coopsim.study.figures.bands import Series, bands, series
from coopsim.study.figures.copies import copies
from coopsim.study.figures.residences import FREE, RECOMPUTED, ROLES, Residences, cells, largest_stretch, residences
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import make
from tests.conftest import ROOT
from tests.study.figures.drawn import SQUEEZED, TRACE, chain, mapped, row, table, texts_are_inside_and_apart

# ---- the data behind curves


def test_a_band_is_over_the_neighbours_that_ran() -> None:
    df = table()
    dtr = series(df)[Series("dtr-oneflow", "")]
    found = bands(dtr, dtr["overhead"].astype("float64"), "range")
    assert [(b.ratio, b.points, b.fits) for b in found] == [(0.3, 3, 0), (0.4, 3, 1), (0.5, 3, 3), (1.0, 3, 3)]
    assert np.isnan(found[0].mean)
    assert found[1].mean == found[1].low == found[1].high == pytest.approx(1.3)
    assert (found[2].low, found[2].mean, found[2].high) == pytest.approx((1.1, 1.2, 1.3))
    deviation = float(np.std([1.1, 1.2, 1.3]))
    spread = bands(dtr, dtr["overhead"].astype("float64"), "std")[2]
    assert (spread.low, spread.high) == pytest.approx((1.2 - deviation, 1.2 + deviation))


def test_a_setting_with_several_values_makes_curves_of_its_own() -> None:
    df = pd.concat([table(), table().assign(allocator="counter")], ignore_index=True)
    assert set(series(df)) == {Series(p, a) for p in ("coop", "dtr-oneflow", "mine") for a in ("arena", "counter")}
    other_model = pd.concat([table(), table().assign(trace="other", steps=4)], ignore_index=True)
    assert {s.variant for s in series(other_model)} == {""}


def test_search_is_per_step_and_begins_where_something_is_searched() -> None:
    df = pd.DataFrame([row("coop", 0.5, 0), row("coop", 1.0, 0, search_visits=0, search_ns=0)])
    assert lines.QUANTITIES["search"].values(df)[0] == 300
    assert lines.QUANTITIES["search_time"].values(df)[0] == 5
    assert all(lines.QUANTITIES[w].values(df).isna()[1] for w in ("search", "search_time"))


# ---- curves


@pytest.mark.parametrize("size", ["column", "slide"])
@pytest.mark.parametrize("what", list(lines.QUANTITIES))
def test_every_text_of_a_curve_figure_can_be_read(what: str, size: str) -> None:
    texts_are_inside_and_apart(lines.draw(table(), what, size=size))


@pytest.mark.parametrize("models", [1, 2, 5, 8])
def test_small_multiples(models: int) -> None:
    df = pd.concat([table().assign(trace=f"model {k}") for k in range(models)], ignore_index=True)
    figure = lines.draw(df, "overhead")
    texts_are_inside_and_apart(figure)
    assert [ax.get_title() for ax in figure.axes if ax.axison] == [f"model {k}" for k in range(models)]


def test_overview() -> None:
    figure = lines.overview(pd.concat([table(), table().assign(trace="b")], ignore_index=True))
    texts_are_inside_and_apart(figure)
    assert len(figure.axes) == 6
    assert figure.axes[4].get_title() == "b: fragmentation rate"


def test_what_does_not_fit_is_marked() -> None:
    figure = lines.draw(table(), "overhead")
    (ax,) = figure.axes
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    dtr, mine = style.policies(["dtr-oneflow", "mine", "coop"])["dtr-oneflow"], style.policies(["mine"])["mine"]
    places = {line.get_color(): [round(float(x)) for x in line.get_xdata()] for line in crosses}
    assert places == {dtr.color: [30], mine.color: [30, 40, 50, 100]}
    figure.draw_without_rendering()
    heights = [line.get_transform().transform((30, line.get_ydata()[0]))[1] for line in crosses]
    assert min(heights) > ax.get_window_extent().y1, "no cross at a height that is an overhead"
    assert len(set(heights)) == 2
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white" and line.get_marker() == dtr.marker]
    assert [line.get_xdata()[0] for line in hollow] == [40]
    assert [t.get_text() for t in ax.texts] == ["1/3"]
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == [
        "DTR",
        "Coop",
        "mine",
        "mean ± standard deviation of the band",
        "not all budgets of the band fit",
        "does not fit",
    ]


def test_a_curve_breaks_where_nothing_fits() -> None:
    rows = [row("coop", c, k, **({"outcome": "oom"} if c == 0.5 else {})) for c in (0.3, 0.5, 0.7) for k in (-1, 0, 1)]
    (ax,) = lines.draw(pd.DataFrame(rows), "overhead").axes
    assert sorted(len(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-") == [1, 1]


def test_a_curve_breaks_where_most_budgets_do_not_fit() -> None:
    """Two of three at 0.5: the line ends there, and goes on at 0.7; one of three at 0.7 would not end it."""
    ends = {(0.5, -1), (0.5, 0), (0.7, 1)}
    rows = [
        row("coop", c, k, **({"outcome": "oom"} if (c, k) in ends else {})) for c in (0.3, 0.5, 0.7) for k in (-1, 0, 1)
    ]
    figure = lines.overview(pd.DataFrame(rows).assign(card="a100-80gb", precision="tf32"))
    for ax in figure.axes:
        assert sorted(len(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-") == [1, 1]
        assert sorted(t.get_text() for t in ax.texts) == ["1/3", "2/3"]
        assert len({line.get_markersize() for line in ax.lines if line.get_marker() != "None"}) == 1
    assert figure.get_suptitle() == "a100-80gb, tf32, 10 steps, arena"


def test_bad_tables_and_words_are_refused() -> None:
    with pytest.raises(CoopsimError, match="did you mean overhead"):
        lines.draw(table(), "overheads")
    with pytest.raises(CoopsimError, match="columns missing: band_center"):
        lines.draw(table().drop(columns="band_center"), "overhead")
    with pytest.raises(CoopsimError, match="no rows"):
        lines.overview(table().iloc[:0])
    with pytest.raises(CoopsimError, match="figure size"):
        lines.draw(table(), "overhead", size="poster")


# ---- feasibility maps


@pytest.mark.parametrize("size", ["column", "slide"])
@pytest.mark.parametrize("traces", [("toy",), ("one", "two", "three")])
def test_every_text_of_a_feasibility_map_can_be_read(traces: tuple[str, ...], size: str) -> None:
    figure = feasibility.draw(mapped(*traces), size=size)
    texts_are_inside_and_apart(figure)
    assert [ax.get_title(loc="left") for ax in figure.axes[:-1]] == [f"{trace}, budget in KiB" for trace in traces]
    for ax in figure.axes[:-1]:
        (above,) = ax.child_axes
        assert above.get_xlim() == pytest.approx([x / 100 * 1e6 / 1024 for x in ax.get_xlim()])


def test_policies_of_a_feasibility_map_keep_their_order() -> None:
    df = mapped("toy")
    turned = pd.concat([df[df.policy == name] for name in ("dtr-oneflow", "mine", "coop")])
    ax = feasibility.draw(turned).axes[0]
    assert [t.get_text() for t in reversed(ax.get_yticklabels())] == ["DTR", "mine", "Coop"]
    lines = tables.feasible_text(turned).splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["dtr-oneflow", "mine", "coop"]
    assert lines[3].split()[1:4] == ["46.00%", "449.2", "KiB"]
    assert lines[4].split()[1:] == ["never", "fits", "-", "never", "fits", "-", "none"]


def test_a_feasibility_map_shows_every_replay_and_every_hole() -> None:
    from matplotlib.collections import PolyCollection

    df = mapped("toy")
    ax = feasibility.draw(df).axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["mine", "DTR", "Coop"]
    assert [t.get_text() for t in ax.texts] == ["22.00%", "46.00%", "never fits", "smallest\nsafe"]
    bars = [c for c in ax.collections if isinstance(c, PolyCollection)]

    def spans(y: int, *, hatch: str | None, grey: bool) -> list[tuple[float, float]]:
        """What is drawn in a row, with this hatch, in grey or in a colour of the scale."""
        found = []
        for bar in bars:
            boxes = [p.get_extents() for p in bar.get_paths()]
            is_grey = len({*np.round(bar.get_facecolor()[0][:3], 3)}) == 1 if len(boxes) else False
            if boxes and round(boxes[0].y0 + 0.42) == y and bar.get_hatch() == hatch and is_grey == grey:
                found += [(round(b.x0, 2), round(b.x1, 2)) for b in boxes]
        return sorted(found)

    fits = spans(2, hatch=None, grey=False)
    assert len(fits) == (df[df.policy == "coop"].outcome == "ok").sum()
    assert (fits[0][0], fits[-1][1]) == (21, 101)
    assert all(left[1] == pytest.approx(right[0], abs=0.02) for left, right in pairwise(fits))
    assert spans(2, hatch=None, grey=True) == [(9, 21)]
    below, hole = spans(1, hatch="//////", grey=True)
    assert below == (9, 41)
    assert hole == (44.55, 45.55)
    assert [spans(0, hatch=h, grey=True) for h in (None, "//////", "xxxxxx")] == [[(9, 51)], [(51, 81)], [(81, 101)]]


# ---- looks


def test_every_policy_has_a_look_of_its_own() -> None:
    names = [*policies.names(), "coop:placement=low", "coop:dead=keep", "mine"]
    looks = style.policies(names)
    assert set(looks) == set(names)
    fixed = [(look.color, look.marker) for name, look in looks.items() if name in ("coop", "lru", "dtr-oneflow")]
    assert len(set(fixed)) == 3
    assert looks["coop:placement=low"].label == "Coop without two ends"
    assert looks["coop:dead=keep"].label == "Coop (dead=keep)"
    assert style.policies(["b", "a"]) == style.policies(["a", "b"])


def test_as_many_unknown_policies_as_spares_differ_and_more_still_get_one() -> None:
    spares = len(style._style()["spare"])
    some = style.policies([f"p{k}" for k in range(spares)])
    assert len({look.color for look in some.values()}) == spares
    assert len(style.policies([f"p{k}" for k in range(3 * spares)])) == 3 * spares


def test_every_role_has_a_colour_and_no_two_the_same() -> None:
    looks = style.looks("role")
    assert set(looks) == {*ROLES, style.RECOMPUTED}
    assert len({look.color for look in looks.values()}) == len(looks)


# ---- the data behind memory maps


def by_walking(schedule: Schedule, step: int) -> Counter[tuple[int, ...]]:
    """(address, bytes, begin, end, recomputed, evicted) of all residencies in a step, row by row."""
    here: dict[int, tuple[int, int, bool]] = {}
    found = []
    rows = schedule.rows()
    kinds = [r[0] for r in rows]
    again = False
    for i, (action, at, op, _, _, address, nbytes, time, _) in enumerate(rows):
        if action in (Action.COMPUTE, Action.RECOMPUTE):
            again = action == Action.RECOMPUTE
            continue
        if action != Action.ALLOC and address in here:
            size, begin, made_again = here.pop(address)
            found.append((address, size, begin, time, made_again, action == Action.EVICT and at == step))
        if action == Action.ALLOC:
            following = next((k for k in kinds[i:] if k in (Action.COMPUTE, Action.RECOMPUTE)), None)
            here[address] = (nbytes, time, op >= 0 and following == Action.RECOMPUTE)
        elif action == Action.MOVE:
            here[address] = (nbytes, time, op >= 0 and again)
    end = schedule.header["total_cost_ns"]
    found += [(a, size, begin, end, made_again, False) for a, (size, begin, made_again) in here.items()]
    times = [r[7] for r in rows if r[1] >= step]
    later = [r[7] for r in rows if r[1] > step]
    t0, t1 = times[0], later[0] if later else end
    return Counter(
        (a, n, max(b, t0) - t0, min(e, t1) - t0, made_again, evicted)
        for a, n, b, e, made_again, evicted in found
        if b < t1 and e > t0 and e > b
    )


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("policy", list(SQUEEZED))
def test_stays_are_those_of_a_walk_through_the_rows(policy: str, step: int) -> None:
    schedule = SQUEEZED[policy]
    r = residences(schedule, TRACE, step)
    columns = (r.address, r.bytes, r.begin_ns, r.end_ns, r.recomputed, r.evicted)
    assert Counter(zip(*(c.tolist() for c in columns), strict=True)) == by_walking(schedule, step)
    assert r.recomputed.any()
    assert r.evicted.any()


@pytest.mark.parametrize("policy", list(SQUEEZED))
def test_stays_never_overlap_and_keep_to_the_budget(policy: str) -> None:
    schedule = SQUEEZED[policy]
    r = residences(schedule, TRACE)
    assert r.step == 2
    assert ((r.address >= 0) & (r.address + r.bytes <= schedule.header["budget_bytes"])).all()
    assert ((r.begin_ns >= 0) & (r.begin_ns < r.end_ns) & (r.end_ns <= r.length_ns)).all()
    for i in range(len(r)):
        apart = (r.end_ns <= r.begin_ns[i]) | (r.begin_ns >= r.end_ns[i])
        apart |= (r.address + r.bytes <= r.address[i]) | (r.address >= r.address[i] + r.bytes[i])
        apart[i] = True
        assert apart.all()


def test_steps_add_up_and_phases_are_in_order() -> None:
    schedule = SQUEEZED["coop"]
    steps = [residences(schedule, TRACE, k) for k in range(3)]
    assert sum(r.length_ns for r in steps) == schedule.header["total_cost_ns"]
    for r in steps:
        assert list(r.phases) == ["forward", "backward", "optimizer"]
        assert 0 == r.phases["forward"] < r.phases["backward"] < r.phases["optimizer"] < r.length_ns
    parameters = steps[0].role == ROLES.index(Role.PARAMETER)
    assert steps[0].bytes[parameters & (steps[0].begin_ns == 0)].sum() >= 12 * 2048


def test_schedules_without_a_map_are_refused() -> None:
    counter = replay(TRACE, "dtr-oneflow", peak_bytes(TRACE), "counter", steps=1)
    with pytest.raises(CoopsimError, match="'counter' has no addresses"):
        memory_map.draw(counter, TRACE)
    with pytest.raises(CoopsimError, match="no step 3; it has 3"):
        memory_map.draw(SQUEEZED["coop"], TRACE, step=3)
    with pytest.raises(CoopsimError, match="not made from this trace"):
        memory_map.draw(SQUEEZED["coop"], chain(3))
    with pytest.raises(CoopsimError, match="no schedule"):
        memory_map.compare([], TRACE)


# ---- memory maps


@pytest.mark.parametrize("size", ["column", "slide"])
def test_every_text_of_a_map_can_be_read(size: str) -> None:
    texts_are_inside_and_apart(memory_map.draw(SQUEEZED["coop"], TRACE, size=size))
    texts_are_inside_and_apart(memory_map.compare(list(SQUEEZED.values()), TRACE, step=0, size=size))


def test_a_cell_shows_what_most_of_it_holds() -> None:
    """Bytes by time of each kind in each cell, added up one by one; thin ones are those that the cells may enlarge."""
    budget, rows, columns = SQUEEZED["coop"].header["budget_bytes"], 7, 11
    for schedule in SQUEEZED.values():
        r = residences(schedule, TRACE)
        share = np.zeros((rows, columns, len(ROLES) + 1))
        for k in range(len(r)):
            kind = RECOMPUTED if r.recomputed[k] else r.role[k]
            low, high = (rows * x / budget for x in (r.address[k], r.address[k] + r.bytes[k]))
            begin, end = (columns * x / r.length_ns for x in (r.begin_ns[k], r.end_ns[k]))
            for i, j in product(range(rows), range(columns)):
                inside = max(0, min(high, i + 1) - max(low, i)) * max(0, min(end, j + 1) - max(begin, j))
                share[i, j, kind] += inside
        found = cells(r, budget, rows, columns)
        thin = {int(rows * (a + n / 2) / budget) for a, n in zip(r.address, r.bytes, strict=True) if n * rows < budget}
        for i, j in product(set(range(rows)) - thin, range(columns)):
            assert found[i, j] == (share[i, j].argmax() if share[i, j].sum() >= 0.5 else FREE)


def residencies(*rows: tuple[int, int, int, int, Role]) -> Residences:
    """(address, bytes, begin, end, role) each, in a step of 1000 ns."""
    a, n, begin, end = (np.array(column, np.int64) for column in list(zip(*rows, strict=True))[:4])
    role = np.array([ROLES.index(row[4]) for row in rows], np.int64)
    no = np.zeros(len(rows), np.bool_)
    return Residences(a, n, begin, end, role, role, role, no, no, no, {"forward": 0, "backward": 500}, 0, 1000, 0)


def test_what_is_thin_is_seen_if_it_is_long() -> None:
    long, short = (105, 1, 0, 1000, Role.PARAMETER), (505, 1, 300, 310, Role.ACTIVATION)
    found = cells(residencies(long, short), 1000, 10, 100)
    assert (found[1] == ROLES.index(Role.PARAMETER)).all()
    assert (np.delete(found, 1, axis=0) == FREE).all()


def test_the_longest_piece_without_parameters() -> None:
    r = residencies(
        (0, 100, 0, 1000, Role.PARAMETER),
        (300, 100, 0, 1000, Role.OPTIMIZER_STATE),
        (600, 100, 0, 1000, Role.ACTIVATION),  # may be evicted
        (800, 100, 0, 400, Role.PARAMETER),  # is gone when the backward pass begins
    )
    assert largest_stretch(r, 1000, 500) == (400, 1000)
    assert largest_stretch(r, 1000, 0) == (400, 800)


def test_a_map_says_what_it_shows() -> None:
    schedule = SQUEEZED["dtr-oneflow"]
    figure = memory_map.draw(schedule, TRACE)
    title = figure.axes[0].get_title(loc="left")
    for word in ("DTR · chain", "70% of the peak", "overhead 25.7 %", "fragmentation rate", "over 3 steps"):
        assert word in title
    labels = {t.get_text() for t in figure.legends[0].get_texts()}
    assert {"parameters", "gradients", "activations", "recomputed", "free", "eviction", "budget"} <= labels


@pytest.mark.parametrize("policy", ["swap-lru", "foresight-offline:lose=either"])
def test_a_map_has_what_is_on_the_host_and_the_engines_of_the_timeline(policy: str) -> None:
    schedule = replay(TRACE, policy, int(0.6 * peak_bytes(TRACE, 512)), steps=3, link=Link("by hand", 8000, 6000, 50))
    assert schedule.header["fetches"] > 0
    no_host = Params(dispatch_ns=0, alloc_ns=0, free_ns=0, search_ns_per_visit=0, evict_ns=0, queue_capacity=4)
    line = simulate(schedule, TRACE, no_host)
    steps = [copies(schedule, r.began_ns, r.length_ns) for r in (residences(schedule, TRACE, k) for k in range(3))]
    for back, kind in ((False, TaskKind.OFFLOAD), (True, TaskKind.FETCH)):
        busy = sum(int(np.diff(found.busy_ns[found.back == back]).sum()) for found in steps if found)
        assert busy == int((line.end_ns - line.start_ns)[line.tasks.kind == kind].sum()) > 0
    assert max(int(found.host_bytes.max()) for found in steps if found) == schedule.header["host_peak_bytes"]
    figure = memory_map.draw(schedule, TRACE)
    assert [ax.get_ylabel().split(" ")[0] for ax in figure.axes] == ["address", "host", ""]
    texts_are_inside_and_apart(figure)


def test_a_failed_replay_has_a_map_that_says_so() -> None:
    failed = replay(TRACE, "dtr-oneflow", int(0.45 * peak_bytes(TRACE, 512)), steps=3)
    assert failed.header["outcome"] == "oom"
    figure = memory_map.draw(failed, TRACE)
    assert "out of memory in step 1 of 3" in figure.axes[0].get_title(loc="left")
    texts_are_inside_and_apart(figure)


def test_budgets_that_differ_stand_in_each_row() -> None:
    roomy = replay(TRACE, "coop", peak_bytes(TRACE, 512), steps=3)
    figure = memory_map.compare([SQUEEZED["coop"], roomy], TRACE)
    assert "70%" in figure.axes[0].get_title(loc="left")
    assert "100%" in figure.axes[1].get_title(loc="left")
    texts_are_inside_and_apart(figure)


# ---- files


@pytest.mark.parametrize("form", figures.FORMATS)
def test_the_same_figure_is_the_same_bytes(tmp_path: Path, form: str) -> None:
    for k in (1, 2):
        save(memory_map.draw(SQUEEZED["coop"], TRACE), tmp_path / f"map{k}.{form}")
        save(lines.draw(table(), "overhead"), tmp_path / f"curve{k}.{form}")
    for name in ("map", "curve"):
        one, two = ((tmp_path / f"{name}{k}.{form}").read_bytes() for k in (1, 2))
        assert one == two
        assert b"CreationDate" not in one
        assert b"<dc:date>" not in one
    assert len(list(tmp_path.iterdir())) == 4


def test_a_format_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    figure = lines.draw(table(), "overhead")
    for name in ("a.bmp", "a"):
        with pytest.raises(CoopsimError, match=r"png.*pdf|pdf.*png"):
            save(figure, tmp_path / name)
    with pytest.raises(CoopsimError, match="png"):
        FigureFiles(tmp_path / "out", ("png", "gif")).sweep(table())
    with pytest.raises(CoopsimError, match="no such folder"):
        save(figure, tmp_path / "none" / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_all_figures_of_a_sweep(tmp_path: Path) -> None:
    names = ["overview", *lines.QUANTITIES]
    written = FigureFiles(tmp_path / "new" / "out", ("png", ".SVG")).sweep(table(), search_time=True)
    assert sorted(p.name for p in written) == sorted(f"{n}.{f}" for n in names for f in ("png", "svg"))
    assert all(p.stat().st_size > 1000 for p in written)
    for unasked in (
        FigureFiles(tmp_path / "new").sweep(table()),
        FigureFiles(tmp_path / "u").sweep(table().assign(search_ns=None)),
    ):
        assert "search_time.png" not in {p.name for p in unasked}


def test_one_file_of_a_sweep_is_the_overview(tmp_path: Path) -> None:
    assert FigureFiles(tmp_path / "fig.pdf").sweep(table()) == [tmp_path / "fig.pdf"]


def test_maps_are_named_after_what_was_replayed(tmp_path: Path) -> None:
    found = [FigureFiles(tmp_path).schedule(s, TRACE)[0].name for s in SQUEEZED.values()]
    assert len(set(found)) == len(SQUEEZED)
    assert found[0] == "memory-map_chain_coop_70pct.png"
    large = make("synth:unet:4")
    budget = int(0.7 * peak_bytes(large, 512)) + 4096
    odd = replay(large, "coop", budget, "cuda-caching", steps=1)
    assert FigureFiles(tmp_path).schedule(odd, large)[0].name == (
        f"memory-map_unet-4_coop_cuda-caching_{odd.header['budget_bytes']}B.png"
    )
    assert FigureFiles(tmp_path / "own.png").schedule(SQUEEZED["coop"], TRACE) == [tmp_path / "own.png"]


def test_a_file_in_the_way_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CoopsimError, match="cannot be made a folder"):
        FigureFiles(tmp_path / "taken").sweep(table())


def test_importing_costs_nothing_and_drawing_sets_no_backend() -> None:
    code = (
        "import sys, coopsim.study.figures as f;"
        "assert not {'matplotlib', 'pandas', 'pyarrow'} & set(sys.modules), sorted(sys.modules);"
        "import matplotlib as m; before = m.rcParams['font.size']; from tests.study.figures.test_figures import table;"
        "f.lines.draw(table(), 'overhead'); assert m.rcParams['font.size'] == before;"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
