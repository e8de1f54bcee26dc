"""`coopsim live --arena`: the command line, on the phantom GPU."""

import json
from pathlib import Path

import pytest

from tests.live.test_cli import SCRIPT, live
from tests.live.test_plan import TRAIN, coopsim


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
