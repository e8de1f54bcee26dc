"""`import coopsim` behaves as a package does: names, help, hints, pickling, reloading; wrong calls say one line."""

# ruff: noqa: ARG005, S301  (calls of one shape; our own pickles)
import importlib
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import coopsim
from coopsim.simulate import metrics, policies

FUNCTIONS = [name for name in coopsim.__all__ if inspect.isfunction(getattr(coopsim, name))]
CLASSES = [name for name in coopsim.__all__ if inspect.isclass(getattr(coopsim, name))]


def test_the_package_is_one() -> None:
    assert inspect.ismodule(coopsim)
    assert inspect.getmodule(coopsim.summary).__name__ == "coopsim.api"
    assert set(coopsim.__all__) <= set(dir(coopsim))
    assert "a simulated GPU memory" in pydoc.render_doc(coopsim)
    assert importlib.reload(coopsim) is coopsim
    assert coopsim.replay is importlib.import_module("coopsim").replay
    names: dict[str, Any] = {}
    exec("from coopsim import *", names)  # noqa: S102
    assert set(coopsim.__all__) <= set(names)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_show_what_they_take(name: str) -> None:
    function = getattr(coopsim, name)
    assert pickle.loads(pickle.dumps(function)) is function
    assert set(typing.get_type_hints(function)) == {*inspect.signature(function).parameters, "return"}
    assert inspect.getdoc(function)
    assert inspect.Parameter.VAR_KEYWORD not in {p.kind for p in inspect.signature(function).parameters.values()}


@pytest.mark.parametrize("name", CLASSES)
def test_methods_show_what_they_take(name: str) -> None:
    for _, member in inspect.getmembers(getattr(coopsim, name)):
        found = member.fget if isinstance(member, property) else member
        if inspect.isfunction(found) and not found.__name__.startswith("_"):
            typing.get_type_hints(found)


@pytest.fixture(scope="module")
def trace() -> Any:
    return coopsim.load("synth:unet:4")


@pytest.fixture(scope="module")
def schedule(trace: Any) -> Any:
    return coopsim.replay(trace, "coop", "60%", steps=2)


def test_values_equal_what_they_contain(trace: Any, schedule: Any, tmp_path: Path) -> None:
    again = coopsim.replay("synth:unet:4", "coop", "60%", steps=2)
    assert again == schedule
    assert again != coopsim.replay(trace, "lru", "60%", steps=2)
    schedule.save(tmp_path / "s.parquet")
    coopsim.save(trace, tmp_path / "t.parquet")
    loaded, back = coopsim.load(tmp_path / "s.parquet"), coopsim.load(str(tmp_path / "t.parquet"))
    assert {loaded, schedule, again, back, trace} == {schedule, trace}
    assert trace.named("other") == trace != coopsim.load("synth:unet:5")
    assert (trace == 3, schedule == trace) == (False, False)
    assert pickle.loads(pickle.dumps(trace)) == trace
    assert coopsim.summary(loaded) == coopsim.summary(schedule, trace)
    assert loaded.peak_bytes <= loaded.header["budget_bytes"] < trace.peak_bytes


@pytest.mark.parametrize("allocator", ["arena", "cuda-caching"])
def test_fragmentation_over_time_is_that_of_the_summary(trace: Any, allocator: str) -> None:
    """Row by row what the compiled core has added up, for every policy: with plans, copies and the small area, too."""
    for policy in policies.names():
        schedule = coopsim.replay(trace, policy, "55%", allocator, steps=3)
        told, table = metrics.summary(schedule), schedule.fragmentation()
        searched = table[table.searched]
        assert len(searched) == told["searches"] - (told["outcome"] == "oom"), policy
        if not len(searched):
            continue
        rate = (searched.free_bytes / told["budget_bytes"]).mean()
        assert rate == pytest.approx(told["fragmentation_rate"], rel=1e-12), policy
        assert table.used_bytes.max() == (told["peak_bytes"] if allocator == "arena" else table.used_bytes.max())
        if allocator == "arena":
            external = (1 - searched.largest_hole_bytes / searched.free_bytes).fillna(0).mean()
            assert external == pytest.approx(told["external_fragmentation"], rel=1e-9), policy


def test_map_gap_and_report(trace: Any, tmp_path: Path) -> None:
    table = coopsim.map(trace, "coop", largest="70%", smallest="50%", step="10%", steps=1)
    assert set(table.policy) == {"coop"}
    assert table.refined.any()
    assert coopsim.plot(table).axes
    found = coopsim.gap("synth:chain:4", ["60%", 1 << 20], "coop,lru", seconds=5)
    assert [[row.policy for row in gap.rows] for gap in found] == [["coop", "lru"]] * 2
    page = coopsim.report("synth:chain:4", tmp_path / "r.html", "coop", "100%,60%", band=1, steps=1)
    assert page.read_text(encoding="utf-8").startswith("<!")


NO_NAME = "is no name"
WRONG: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a folder": (lambda t, s: coopsim.load("."), "is a directory"),
    "no file": (lambda t, s: coopsim.load("no.parquet"), "no such file"),
    "bytes": (lambda t, s: coopsim.load(b"bert"), NO_NAME),  # type: ignore[arg-type]
    "a schedule replayed": (lambda t, s: coopsim.replay(s, "coop", "50%"), "is no trace"),
    "traces": (lambda t, s: coopsim.replay([t], "coop", "50%"), "is no trace"),  # type: ignore[arg-type]
    "policies": (lambda t, s: coopsim.replay(t, ["coop"], "50%"), NO_NAME),  # type: ignore[arg-type]
    "budgets": (lambda t, s: coopsim.replay(t, "coop", ["50%"]), "is not an amount"),  # type: ignore[arg-type]
    "steps": (lambda t, s: coopsim.replay(t, "coop", "50%", steps="3"), "steps"),  # type: ignore[arg-type]
    "no traces": (lambda t, s: coopsim.sweep([], "coop", "50%"), "traces: no value given"),
    "no policies": (lambda t, s: coopsim.sweep(t, [], "50%"), "policies: no value given"),
    "no budgets": (lambda t, s: coopsim.sweep(t, "coop", []), "budgets: no value given"),
    "no processes": (lambda t, s: coopsim.sweep(t, "coop", "50%", jobs=0), "jobs must be at least 1"),
    "no neighbours": (lambda t, s: coopsim.sweep(t, "coop", "50%", band=0), "band must be at least 1"),
    "no table": (lambda t, s: coopsim.sweep(t, "coop", "50%", output=3), NO_NAME),  # type: ignore[arg-type]
    "a map's percentage": (lambda t, s: coopsim.map(t, "coop", largest=1), "a percentage"),  # type: ignore[arg-type]
    "a map of a schedule": (lambda t, s: coopsim.map(s, "coop"), NO_NAME),
    "a gap of nothing": (lambda t, s: coopsim.gap(None, "50%"), NO_NAME),  # type: ignore[arg-type]
    "a gap's policy": (lambda t, s: coopsim.gap(t, "50%", 3), NO_NAME),  # type: ignore[arg-type]
    "a gap's link": (lambda t, s: coopsim.gap(t, "50%", "coop", link="pcie-4"), "policies that offload"),
    "a report's file": (lambda t, s: coopsim.report(t, None), "the HTML file"),  # type: ignore[arg-type]
    "a report's policy": (lambda t, s: coopsim.report(t, "o.html", 3), NO_NAME),  # type: ignore[arg-type]
    "the summary of a file": (lambda t, s: coopsim.summary("s.parquet"), "is no schedule"),  # type: ignore[arg-type]
    "an old schedule": (lambda t, s: coopsim.summary(old(s)), "summary(schedule, trace)"),
    "validate, turned round": (lambda t, s: coopsim.validate(t, s), "is no schedule"),
    "a figure with a name": (lambda t, s: coopsim.plot(s, "unet"), "is no trace"),  # type: ignore[arg-type]
    "a figure of a table": (lambda t, s: coopsim.plot(pd.DataFrame({"a": [1]})), "a"),
    "capture, steps": (lambda t, s: coopsim.capture("unet", steps="3"), "'3' is no int"),  # type: ignore[arg-type]
    "capture, batch": (lambda t, s: coopsim.capture("unet", batch=0), "batch must be at least 1"),
    "capture, file": (lambda t, s: coopsim.capture("unet", 3), NO_NAME),  # type: ignore[arg-type]
    "capture, name": (lambda t, s: coopsim.capture("unet", name=3), "the label"),  # type: ignore[arg-type]
    "a phantom": (lambda t, s: coopsim.phantom_gpu(None), NO_NAME),  # type: ignore[arg-type]
    "a trace's file": (lambda t, s: coopsim.save(t, "."), "is a folder"),
    "a schedule as a trace": (lambda t, s: coopsim.save(s, "s.parquet"), "is no trace"),  # type: ignore[arg-type]
    "a schedule's file": (lambda t, s: s.save("."), "is a folder"),
    "a table": (lambda t, s: t.to_pandas(3), "unknown table"),
    "an allocator": (lambda t, s: coopsim.cuda_caching(3), "3"),  # type: ignore[arg-type]
    "a script": (lambda t, s: coopsim.fit("no.py", gpu="rtx-3060"), "no.py"),
}


def old(schedule: Any) -> Any:
    """As a file of coopsim 0.1 has it."""
    found = schedule.select(np.ones(len(schedule), np.bool_))
    object.__setattr__(found, "header", {k: v for k, v in found.header.items() if not k.startswith("peak_without")})
    return found


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_say_one_line(call: str, trace: Any, schedule: Any) -> None:
    calls, says = WRONG[call]
    with pytest.raises(coopsim.CoopsimError, match=re.escape(says)) as caught:
        calls(trace, schedule)
    assert "\n" not in str(caught.value)


def test_policy_files_of_0_2_are_still_loaded(tmp_path: Path) -> None:
    """With a warning: coopsim.policies, .types and .tables have moved."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from coopsim.policies import Policy\nfrom coopsim.types import Placement\nfrom coopsim.tables import bands\n"
        "import coopsim, importlib, sys\nassert (Policy, Placement) == (coopsim.Policy, coopsim.Placement)\n"
        "importlib.reload(coopsim)\nkinds = [type(one) for one in sys.meta_path]\n"
        "ours = [kind.__name__ for kind in kinds if kind.__module__ == 'coopsim']\n"
        "assert len(set(ours)) == len(ours), ours\n"
    )
    done = subprocess.run([sys.executable, "-W", "default", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has moved: import what you need from coopsim") == 3
