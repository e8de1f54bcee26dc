"""Plans made before the program runs: recorded in one process, planned, and followed from the first step of another."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from tests.conftest import ROOT, Runner
from tests.live.command import SCRIPT, coopsim, live
from tests.live.plans import PLAN, TRAIN


@pytest.mark.slow
def test_the_first_step_goes_by_plan_too(child: Runner, tmp_path: Path) -> None:
    """The step that makes Adam's state is a kind of its own. The plan of another program changes no bits."""
    text = f"""
paths = {{name: {str(tmp_path)!r} + "/" + name for name in ["convolutions", "transformer"]}}
def one(name):
    return planned(name, paths[name]) | compare(name, None, steps=4, plan=paths[name])
found = {{name: one(name) for name in paths}}
answer(found | {{"foreign": compare("convolutions", "40MiB", plan=paths["transformer"])}})
"""
    found = child(PLAN + text)
    foreign = found.pop("foreign")
    assert foreign["same"]
    assert foreign["steps"] - foreign["planned_steps"] >= 2  # recorded, as without a plan
    for name, report in found.items():
        assert report["same"], name
        assert report["why"] == [""] * len(report["first"]), name
        assert (report["first"][0], report["first"][-1]) == (True, False), name
        assert (report["planned_steps"], report["deviations"]) == (4, 0), (name, report)
        assert report["evictions"] > 0
        assert report["peak_allocated_bytes"] <= report["budget_bytes"] == report["budget"]


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(("words", "line"), [
    (["--plan", "none.plan"], "none.plan: no such file"),
    (["--plan", str(SCRIPT)], "not a plan"),
    ([], "give a budget"),
])  # fmt: skip
def test_run_refuses_what_is_no_plan(words: list[str], line: str) -> None:
    done = live("--gpu", "rtx-3060", *words, "--", "python", str(SCRIPT))
    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


def plan(out: Path, memory: str) -> tuple[int, dict[str, Any], str]:
    words = ("--gpu", "a100-80gb", "--memory", memory, "-o", str(out), "--json", "--", *TRAIN)
    done = coopsim("live", "plan", *words)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_a_plan_is_made_on_the_phantom_and_followed_from_the_first_step(tmp_path: Path) -> None:
    out = tmp_path / "step.plan"
    code, found, said = plan(out, "2400MiB")
    assert code == 0, said
    assert (found["fits"], found["outcome"], found["budget_bytes"]) == (True, "ok", 2400 << 20)
    assert [kind["first"] for kind in found["kinds"]] == [True, False]
    assert found["lower_bound_bytes"] <= found["least_planned_bytes"] <= found["budget_bytes"]
    assert found["peak_allocated_bytes"] <= found["peak_reserved_bytes"] <= found["budget_bytes"]
    done = coopsim("live", "run", "--gpu", "a100-80gb", "--plan", str(out), "--json", "--", *TRAIN)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    assert (ran["planned_steps"], ran["steps"], ran["deviations"], ran["replans"]) == (6, 6, 0, 0)
    assert ran["predicted_overhead"] == pytest.approx(found["predicted_overhead"])


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_what_cannot_fit_is_said_with_the_bound_and_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "step.plan"
    code, found, _ = plan(out, "900MiB")
    assert code == 3
    assert (found["fits"], found["plan"]) == (False, None)
    assert found["budget_bytes"] < found["lower_bound_bytes"] <= found["least_planned_bytes"]
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_a_budget_of_the_scripts_own_says_what_a_step_is(tmp_path: Path) -> None:
    """On the CPU, with the same losses as alone; the command's plan and budget count, and not the script's 1 GiB."""
    script, out = str(SCRIPT.with_name("own_budget.py")), tmp_path / "step.plan"
    environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)}
    alone = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    made = coopsim("live", "plan", "--memory", "2MiB", "-o", str(out), "--json", "--", "python", script)
    assert made.returncode == 0, made.stderr
    ran = coopsim("live", "run", "--plan", str(out), "--json", "--", "python", script)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["planned_steps"], found["budget_bytes"], found["deviations"]) == (6, 2 << 20, 0)
    assert found["evictions"] > 0
    assert [line for line in ran.stderr.splitlines() if line.startswith("0.")] == alone.stdout.splitlines()
