"""Where a step's time goes, drawn: the bars are the timeline's sums."""

from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import load_params, simulate, summary
from coopsim.study.figures import FigureFiles, time
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make


def bar(policy: str, ratio: float, allocator: str = "arena", visit_ns: float = 15) -> time.Bar:
    trace = make("synth:chain")
    schedule = replay(trace, policy, int(ratio * peak_bytes(trace, 512)), allocator, steps=2)
    params = changed(load_params(), search_ns_per_visit=visit_ns, segment_alloc_ns=10**6)
    found = summary(simulate(schedule, trace, params))
    return time.Bar(policy, allocator, ratio, schedule.header["outcome"], found)


@pytest.mark.parametrize("allocator", ["arena", "cuda-caching"])
def test_the_parts_add_up_to_the_step(allocator: str) -> None:
    b = bar("dtr", 0.7, allocator, visit_ns=10**6)
    s = b.summary
    assert sum(b.parts().values()) == pytest.approx((s["gpu_busy_ns"] + s["gpu_waited_ns"]) / 2e6)
    assert sum(b.search().values()) == pytest.approx(s["search_ns"] / 2e6)
    assert min(*b.parts().values(), *b.search().values()) >= 0
    assert b.parts()["wait_search"] > 0
    assert (b.parts()["wait_device"] > 0) == (allocator == "cuda-caching")


def test_bars_in_order_with_what_can_be_seen_in_the_legend() -> None:
    bars = [bar("dtr", 0.6), bar("coop", 0.9), bar("coop", 0.6), bar("lru", 0.9, "cuda-caching")]
    figure = time.draw(bars)
    left, right = figure.axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == ["Coop 90% arena", "LRU 90% cuda-caching", "Coop 60% arena", "dtr 60% arena"]
    assert left.get_ylim()[0] > left.get_ylim()[1], "the first is on top"
    total = [sum(p.get_width() for p in left.patches if abs(p.get_y() + 0.36 - y) < 1e-9) for y in left.get_yticks()]
    in_order = [bars[1], bars[3], bars[2], bars[0]]
    assert total == pytest.approx([sum(b.parts().values()) for b in in_order])
    assert left.get_xlim()[1] > max(total)
    (legend,) = figure.legends
    assert "copies" not in [text.get_text() for text in legend.get_texts()]
    assert "computes" in [text.get_text() for text in legend.get_texts()]
    assert right.get_xlabel() == "modelled search per step (ms)"


def test_nothing_to_draw() -> None:
    with pytest.raises(CoopsimError, match="no schedule"):
        time.draw([])
    with pytest.raises(CoopsimError, match="has no op"):
        time.draw([time.Bar("coop", "arena", 0.5, "oom", {"steps": 0})])


def test_the_same_figure_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        FigureFiles(tmp_path / name).time([bar("coop", 0.7)], make("synth:chain"))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_command_line_draws_it(tmp_path: Path, coopsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for budget in ("70%", "90%"):
        replayed = coopsim("replay", "synth:chain", "--policy", "coop", "--budget", budget, "-o", f"{budget}.parquet")
        assert replayed.code == 0
    plot = ("plot", "70%.parquet", "90%.parquet", "--trace", "synth:chain", "-o", "figures")
    code, _, err = coopsim(*plot, "--timeline")
    assert (code, err) == (0, "wrote figures/time_chain-16.png\n")
    assert coopsim("sweep", "synth:chain", "--policy", "coop", "--budget", "90%", "-o", "r.parquet").code == 0
    code, _, err = coopsim("plot", "r.parquet", "--timeline")
    assert code == 2
    assert err == "coopsim: r.parquet: a sweep's table has no actions to time; --timeline takes schedules\n"


def test_replay_takes_parameters(tmp_path: Path, coopsim: Any) -> None:
    import json

    mine = tmp_path / "mine.toml"
    mine.write_text('[dispatch_ns]\nvalue = 10000000\nsource = "mine"\n')
    command = ("replay", "synth:chain", "--policy", "coop", "--budget", "70%", "--json")
    shipped = json.loads(coopsim(*command, "--timeline").out)["timeline"]
    slow = json.loads(coopsim(*command, "--timeline-params", mine).out)["timeline"]
    assert slow["step_ns"] > 10 * shipped["step_ns"]
    assert "timeline" not in json.loads(coopsim(*command).out)
