"""The page's data is the replays'; its text is one file that loads nothing, and in which names residency names."""

import base64
import json
import re
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopsim.base.types import CoopsimError
from coopsim.simulate.metrics import SUMMARY_KEYS, explain
from coopsim.simulate.replay import measure, record
from coopsim.study.figures.page import _SCRIPTS, html
from coopsim.study.figures.page_data import EARLIER, EVICTED, RECOMPUTED, Ask, collect
from coopsim.study.figures.residences import ROLES, residences
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make

from .conftest import ASK, MARKUP, OPTIONS, nobody, wicked

PAGE = Path(html.__code__.co_filename).parent / "page"


def test_figures_are_the_replays(small: Trace, data: dict[str, Any]) -> None:
    (trace,) = data["traces"]
    sizes = [b["bytes"] for b in trace["budgets"]]
    assert sizes == sorted(sizes)
    assert len(sizes) == 4
    names = [p["name"] for p in data["policies"]]
    assert sorted(names) == ["coop", "lru"]
    for shown, (name, nbytes) in zip(trace["replays"], product(names, sizes), strict=True):
        row = measure(small, name, nbytes, options=OPTIONS)
        for key in set(SUMMARY_KEYS) - {"search_ns", "planning_ns"}:
            assert shown[key] == row[key], key
        assert shown["explained"] == (None if row["outcome"] == "ok" else explain(row))
    assert {r["outcome"] for r in trace["replays"]} == {"ok", "oom"}
    assert "search_ns" not in json.dumps(data)
    assert "planning_ns" not in json.dumps(data)


def test_curves_are_bands_of_neighbouring_budgets(small: Trace, data: dict[str, Any]) -> None:
    (trace,) = data["traces"]
    peak = peak_bytes(small, 512)
    for name, quantity in product(("lru", "coop"), ("overhead", "fragmentation_rate")):
        points = trace["curves"][name][quantity]
        assert [p[0] for p in points] == [b["ratio"] for b in trace["budgets"]]
        for point, b in zip(points, trace["budgets"], strict=True):
            offsets = (-0.025 * peak, 0, 0.025 * peak)
            rows = [measure(small, name, max(512, round(b["bytes"] + o)), options=OPTIONS) for o in offsets]
            fit = [r for r in rows if r["outcome"] == "ok"]
            values = [r[quantity] for r in fit if r[quantity] is not None]
            assert point[1:3] == [3, len(fit)]
            expected = [np.mean(values), min(values), max(values)] if values else [None] * 3
            assert point[3:] == ([pytest.approx(v) for v in expected] if values else expected)


def unpack(text: str) -> list[dict[str, Any]]:
    steps = json.loads(zlib.decompress(base64.b64decode(text)))
    for columns in steps:
        for name in ("begin", "address", "op"):
            columns[name] = np.cumsum(columns[name]).tolist()
    return list(steps)


def test_stays_are_the_schedules(small: Trace, data: dict[str, Any]) -> None:
    (trace,) = data["traces"]
    marks = 0
    for shown in trace["replays"]:
        schedule = record(small, shown["policy"], shown["budget_bytes"], options=OPTIONS)
        steps = unpack(shown["residencies"])
        assert len(steps) == len(shown["maps"])
        for columns, m in zip(steps, shown["maps"], strict=True):
            r = residences(schedule, small, m["step"])
            assert (m["length_ns"], m["phases"]) == (r.length_ns, r.phases)
            flags = RECOMPUTED * r.recomputed + EARLIER * r.earlier + EVICTED * r.evicted
            expected = zip(
                r.begin_ns, r.end_ns - r.begin_ns, r.address // 512, r.bytes // 512, r.storage, r.op, flags, strict=True
            )
            assert sorted(zip(*columns.values(), strict=True)) == sorted(tuple(map(int, row)) for row in expected)
            roles = [trace["role_of"][s] if s >= 0 else ROLES.index("temporary") for s in r.storage]
            assert roles == r.role.tolist()
            marks |= int(np.bitwise_or.reduce(flags, initial=0))
    assert marks == RECOMPUTED | EARLIER | EVICTED


def test_each_replay_is_counted(small: Trace) -> None:
    for band in (1, 3, 4):
        ask = Ask(["coop", "lru", "coop"], ["80%", "60%", "60%"], band=band, options=OPTIONS)
        done = []
        collect([small], ask, lambda: done.append(1))  # noqa: B023
        assert len(done) == ask.replays(small) == 4 * (band + (band == 4))


def test_unknown_words_are_refused(small: Trace) -> None:
    for ask in (Ask(["copo"], ["60%"], options=OPTIONS), Ask(["coop"], ["sixty"], options=OPTIONS)):
        with pytest.raises(CoopsimError):
            collect([small], ask, nobody)


def test_the_same_data_is_the_same_page(small: Trace, data: dict[str, Any]) -> None:
    assert html(data) == html(collect([small], ASK, nobody))


def test_names_are_never_markup(small: Trace, data: dict[str, Any]) -> None:
    text = html(collect([wicked(small)], ASK, nobody))
    assert MARKUP not in text
    assert re.findall(r"<\W*[\w!]+", text) == re.findall(r"<\W*[\w!]+", html(data))  # no other tag than in any page
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    assert MARKUP in json.loads(found[1])["traces"][0]["label"]


def test_the_page_loads_nothing(data: dict[str, Any]) -> None:
    text = html(data)
    own = text.split('id="data">')[0] + text.rpartition("</script>\n<script>")[2]
    assert "http" not in own.replace("http-equiv", "")
    assert re.findall(r"\b(?:src|href)=\"([^\"]*)", own) == ["data:,"]
    assert not re.search(r"url\(|@import|import\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|innerHTML|eval\(", own)
    assert "default-src 'none'" in own


def test_every_file_of_the_page_is_in_it() -> None:
    assert {p.name for p in PAGE.iterdir()} == {"page.html", "style.css", *(f"{name}.js" for name in _SCRIPTS)}


def test_a_policy_of_a_file_is_labelled_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("from coopsim.simulate.policies import Policy\nMine = Policy('rooted', '', 'a test')\n")
    found = collect([make("synth:chain:8")], Ask([f"{file}:Mine"], ["80%"], band=1, options=OPTIONS), lambda: None)
    assert found["policies"][0]["label"] == "rooted"
    assert found["policies"][0]["name"] == found["traces"][0]["replays"][0]["policy"]
