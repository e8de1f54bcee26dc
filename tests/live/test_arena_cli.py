"""`coopsim live --arena`: the command line, on the phantom GPU."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.cli import live as verb
from coopsim.live import plan_file
from tests.conftest import Runner
from tests.live.command import SCRIPT, coopsim, live
from tests.live.plans import EMPTY, TRAIN


@pytest.mark.usefixtures("child")
def test_steps_without_a_plan_keep_to_the_arena() -> None:
    """Its first steps, which are recorded while they evict on demand, included."""
    done = live("--arena", "--gpu", "a100-80gb", "--memory", "90MiB", "--json", "--", "python", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["steps"]) == ("ok", 6)
    assert found["planned_steps"] >= 1
    assert found["peak_allocated_bytes"] <= found["peak_reserved_bytes"] <= 1.02 * found["budget_bytes"]


@pytest.mark.usefixtures("child")
def test_a_share_is_no_size_of_an_arena() -> None:
    done = live("--arena", "--gpu", "rtx-3060", "--memory", "90%", "--", "python", str(SCRIPT))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--arena: 90% is not known beforehand; give --memory an amount, such as 8GiB" in done.stderr


@pytest.mark.usefixtures("child")
def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    done = live("--arena", "--gpu", "rtx-3060", "--memory", "1GiB", "--", "python", str(SCRIPT))
    assert (done.returncode, done.stderr) == (2, "coopsim: --arena: no C++ compiler (/nowhere/c++)\n")


@pytest.mark.parametrize(("flag", "planned", "compiler", "taken", "said"), [
    (None, True, True, True, ""),
    (None, True, False, False, "is a plan for an arena, and there is none (no C++ compiler (/nowhere/c++))"),
    (False, True, True, False, "is a plan for an arena, and there is none (--no-arena)"),
    (None, False, True, False, ""),
    (True, False, True, True, ""),
    (False, False, True, False, ""),
])  # fmt: skip
def test_the_plan_says_whether_there_is_an_arena_where_no_flag_does(
    flag: bool | None,
    planned: bool,
    compiler: bool,
    taken: bool,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not compiler:
        monkeypatch.setenv("CXX", "/nowhere/c++")
    path = str(tmp_path / "step.plan")
    plan_file.save(replace(EMPTY, arena=planned), path)
    assert verb.has_arena(argparse.Namespace(arena=flag, memory=None, plan=path)) == taken
    err = capsys.readouterr().err
    assert (said in err) if said else (err == "")
    assert len(err.splitlines()) == bool(said)


def test_a_torch_without_cuda_has_none_and_says_so(child: Runner) -> None:
    assert child("""
import json, torch
torch.version.cuda = None
from coopsim.run.launch import plugin
made = plugin.make("coopsim.live.guest", json.dumps({"memory": "1GiB", "arena_bytes": 1 << 30}))
made.begin(None)
answer(made.end()["no_arena"])
""") == "this torch has no CUDA"  # fmt: skip


def test_without_a_plan_there_is_none_unless_it_is_asked_for() -> None:
    assert [verb.has_arena(argparse.Namespace(arena=a, memory="1GiB", plan=None)) for a in (None, False, True)] == [
        False, False, True
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_a_plan_is_for_an_arena_where_the_caching_allocator_has_no_addresses(tmp_path: Path) -> None:
    out = str(tmp_path / "step.plan")
    words = ("--gpu", "rtx-3060", "--memory", "59MiB", "-o", out, "--json", "--", "python", str(SCRIPT))
    made = coopsim("live", "plan", *words)
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    assert (found["fits"], found["arena"], plan_file.load(out).arena) == (True, True, True)
    assert found["peak_reserved_bytes"] <= found["budget_bytes"]
    assert "PyTorch's caching allocator finds no addresses" in made.stderr
    done = coopsim("live", "run", "--gpu", "rtx-3060", "--plan", out, "--json", "--", "python", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    assert (ran["planned_steps"], ran["replans"]) == (6, 0)
    assert ran["peak_reserved_bytes"] <= ran["budget_bytes"] == 59 << 20


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_a_plan_with_addresses_is_followed_from_the_first_step(tmp_path: Path) -> None:
    """Swin-T in 30 % of its memory, of which PyTorch's caching allocator would reserve 103 %."""
    out = tmp_path / "step.plan"
    gpu = ("--arena", "--gpu", "a100-80gb")
    made = coopsim("live", "plan", *gpu, "--memory", "1337MiB", "-o", str(out), "--json", "--", *TRAIN)
    assert made.returncode == 0, made.stderr
    done = coopsim("live", "run", *gpu, "--plan", str(out), "--json", "--", *TRAIN)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    assert (ran["planned_steps"], ran["steps"], ran["deviations"], ran["replans"]) == (6, 6, 0, 0)
    assert ran["peak_reserved_bytes"] <= ran["budget_bytes"] == 1337 << 20
