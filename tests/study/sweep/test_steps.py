"""--steps k: one step k times in one memory, or through a sequence of different ones (dynamic graphs, lengths)."""

from pathlib import Path

import numpy as np
import pytest

from coopsim.base.types import Action, Phase, Role
from coopsim.simulate.replay import replay
from coopsim.study.sweep import Grid, Scan, feasibility_map, sweep
from coopsim.study.validate import validate
from coopsim.trace import Trace, TraceBuilder, save
from coopsim.trace.measure import peak_bytes

LENGTHS = (5, 3, 12)  # of the sequences in a step's batch, in units of 1 KiB
STEPS = (1, 3, 7)


@pytest.fixture(scope="module")
def lengths() -> Trace:
    """Three steps through the same eight layers, whose activations are as long as the step's sequences."""
    b = TraceBuilder()
    weights = [b.storage(4096, Role.PARAMETER, alive_at_start=True) for _ in range(8)]
    for k, length in enumerate(LENGTHS):
        if k:
            b.next_step()
        made = [b.storage(1024 * length)]
        b.op("aten.embedding.default", creates=made, cost_ns=100 * length)
        for w in weights:
            made.append(b.storage(1024 * length))
            b.op("aten.mm.default", reads=[made[-2], w], creates=[made[-1]], cost_ns=1000 * length)
        gradient = made[-1]
        for w, x in zip(reversed(weights), reversed(made[:-1]), strict=True):
            new = b.storage(1024 * length)
            b.op("aten.mm.default", reads=[x, gradient, w], creates=[new], cost_ns=2000 * length, phase=Phase.BACKWARD)
            b.op("aten.add_.Tensor", mutates=[w], cost_ns=50, phase=Phase.OPTIMIZER)
            b.free(gradient)
            if x != made[0]:
                b.free(x)
            gradient = new
        b.free(gradient)
        b.free(made[0])
    return b.build({"model": "lengths"})


def base(trace: Trace, steps: int) -> int:
    """Cost of the steps, going round the sequence."""
    per_step = [int(trace.cost_ns[trace.step == k].sum()) for k in range(trace.n_steps)]
    return sum(per_step[k % trace.n_steps] for k in range(steps))


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("policy", ["dtr-oneflow", "coop", "lru"])
def test_a_replay_goes_round_the_sequence_in_one_memory(lengths: Trace, policy: str, steps: int) -> None:
    assert lengths.n_steps == 3
    schedule = replay(lengths, policy, int(0.7 * peak_bytes(lengths, 512)), steps=steps)
    assert schedule.header["outcome"] == "ok"
    assert validate(schedule, lengths) == []
    computed = schedule.op[schedule.action == Action.COMPUTE].tolist()
    ops = [np.flatnonzero(lengths.step == k).tolist() for k in range(3)]
    assert computed == [op for k in range(steps) for op in ops[k % 3]]
    of_steps = schedule.step[schedule.action == Action.COMPUTE].tolist()
    assert of_steps == [k for k in range(steps) for _ in ops[k % 3]]
    if steps == 3:  # only the longest needs to recompute
        again = schedule.step[schedule.action == Action.RECOMPUTE]
        assert set(again.tolist()) == {2}


def test_sweep_and_map_do_too(lengths: Trace, tmp_path: Path) -> None:
    save(lengths, tmp_path / "t.parquet")
    grid = Grid((str(tmp_path / "t.parquet"), "synth:unet:3"), ("coop",), budgets=("70%",), options={"steps": STEPS})
    df = sweep(grid, tmp_path / "r.parquet")
    found = df.set_index(["trace", "steps"])
    for k in STEPS:
        row = found.loc[("lengths", k)]
        assert row.base_cost_ns == base(lengths, k)
        alone = replay(lengths, "coop", row.budget_bytes, steps=k)
        assert row.total_cost_ns == alone.header["total_cost_ns"]
        assert row.overhead == row.total_cost_ns / row.base_cost_ns
        assert found.loc[("unet-3", k)].base_cost_ns == k * found.loc[("unet-3", 1)].base_cost_ns
    mapped = feasibility_map(grid, Scan(bottom="70%", step="10%"), tmp_path / "m.parquet").set_index("budget")
    at = mapped[(mapped.trace == "lengths") & (mapped.steps == 7)].loc["70%"]
    assert at.total_cost_ns == found.loc[("lengths", 7)].total_cost_ns
