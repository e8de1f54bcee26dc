"""What a sweep prints: overhead, fragmentation and search by policy and budget."""

from pathlib import Path

import pytest

from coopsim.study import tables
from coopsim.study.sweep import Grid, sweep


@pytest.mark.parametrize("steps", [(3,), (1, 3)])
def test_blocks_visited_are_per_step(steps: tuple[int, ...], tmp_path: Path) -> None:
    grid = Grid(("synth:unet:4",), ("coop", "lru"), budgets=("90%", "5%"), options={"steps": list(steps)}, band=3)
    df = sweep(grid, tmp_path / "r.parquet")
    *_, visited, legend = tables.text(df).split("\n\n")
    head, _, *lines = visited.splitlines()[1:]
    assert head.split() == ["blocks", "visited", "per", "step", "at", "90%", "5%"]
    wanted = []
    for policy in ("coop", "lru"):
        for n in steps:
            rows = df[(df.policy == policy) & (df.steps == n) & (df.band_center > 0.5)]
            assert (rows.outcome == "ok").all()
            named = [policy] if len(steps) == 1 else [f"{policy},", "steps", str(n)]
            wanted.append([*named, f"{(rows.search_visits / n).mean():,.0f}", "-"])
    assert sorted(line.split() for line in lines) == sorted(wanted)
    assert "-: none did" in legend
