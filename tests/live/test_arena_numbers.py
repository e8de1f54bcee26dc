"""Real tensors in an arena as large as the budget, on the CPU: the same bits, and each request where it was planned."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Runner

STEPS = 5


def train(child: Runner, name: str, share: float, path: Path, before: str = "", slack: float = 1.0) -> dict[str, Any]:
    plan = str(path / "step.plan")
    made = child(f"from tests.live.in_arena import record\nanswer(record({name!r}, {share}, {plan!r}))")
    assert made["why"] == ["", ""]
    return again(child, name, plan, before, slack)


def again(child: Runner, name: str, plan: str, before: str, slack: float) -> dict[str, Any]:
    found: dict[str, Any] = child(
        f"import tests.live.in_arena as arena\n{before}\nanswer(arena.train({name!r}, {plan!r}, {STEPS}, {slack}))"
    )
    return found


@pytest.mark.parametrize(("name", "share", "before"), [
    ("transformer", 0.5, ""),
    pytest.param("transformer", 0.42, "", marks=pytest.mark.slow),
    pytest.param("convolutions", 0.5, "", marks=pytest.mark.slow),
    pytest.param("convolutions", 0.42, "", marks=pytest.mark.slow),
    pytest.param("convolutions", 0.5, "arena.in_python_alone()", marks=pytest.mark.slow),
])  # fmt: skip
def test_steps_in_an_arena_end_with_the_same_bits(
    child: Runner, name: str, share: float, before: str, tmp_path: Path
) -> None:
    """Dropout, Adam and momentum; the first step makes the optimizer's state. Memory is the arena's alone."""
    found = train(child, name, share, tmp_path, before)
    assert found["same"]
    assert (found["planned_steps"], found["deviations"]) == (STEPS, 0)
    assert found["evictions"] > 50
    assert found["recomputes"] > 50
    assert found["reserved_peak"] == found["size"] <= found["budget"]
    for planned, placed in found["placed"]:
        assert planned > 150
        assert placed >= 0.9 * planned


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "convolutions"])
def test_steps_that_offload_do_so_in_an_arena_too(child: Runner, name: str, tmp_path: Path) -> None:
    """By a plan from a file, from the first step on: what is fetched has its place, like all else."""
    plan = str(tmp_path / "step.plan")
    made = child(f"from tests.live.in_arena import record\nanswer(record({name!r}, 0.5, {plan!r}, offload=True))")
    assert made["why"] == ["", ""]
    found = again(child, name, plan, "", 1.0)
    assert found["same"]
    assert (found["planned_steps"], found["deviations"]) == (STEPS, 0)
    assert found["offloads"] > 5 * STEPS
    assert found["reserved_peak"] == found["size"] <= found["budget"]
    for planned, placed in found["placed"]:
        assert placed >= 0.9 * planned


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["shift_addresses", "end_too_early"])
def test_plans_that_overlap_are_seen(child: Runner, fault: str, tmp_path: Path) -> None:
    """The allocator gives nobody a place that is taken. If it did, the numbers would tell."""
    found = train(child, "transformer", 0.5, tmp_path, f"arena.{fault}()", 2.0)
    assert found["same"]
    assert sum(placed for _, placed in found["placed"]) < 0.8 * sum(planned for planned, _ in found["placed"])
    before = f"arena.without_guard()\narena.{fault}()"
    unguarded = again(child, "transformer", str(tmp_path / "step.plan"), before, 2.0)
    assert not unguarded["same"], unguarded
