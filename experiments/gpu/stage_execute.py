"""Execute a model's schedules on the GPU: python -m experiments.gpu.stage_execute MODEL FOLDER [BATCH] [--ratios R …].

The step is recorded again, with the arguments of its ops; then each schedule runs in a block of its budget: once to
compare the parameters that it leaves after its first step with those that the program itself left, and after its last
with those of the schedule without eviction; three times for the time of the whole; and three times with events around
every op.
"""

import argparse
import gc
import itertools
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coopsim import trace as traces
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.record.capture import models
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import RealDevice
from coopsim.simulate.metrics import summary
from coopsim.trace import Trace
from coopsim.trace import schedule as schedules
from coopsim.trace.schedule import Schedule
from experiments.gpu import execute, machine, names, program

#: A kernel sleeps so long before the copies and before the op, so that the host is ahead of the GPU: 0.1 and 0.2 ms.
_CYCLES = {0: 200_000, 1: 400_000}
_PASSES = 3
_PARTS = ("prepare_ns", "op_ns", "place_ns")
_STRUCTURE = ("bytes", "becomes")
_ROWS = ("reads", "mutates", "creates")


class Events:
    """Times what a run does, between events: five an op, as the op's sleep lies between the copies and the op."""

    def __init__(self) -> None:
        self._ops: list[int] = []
        self._events: list[Any] = []

    def mark(self, op: int, part: int) -> None:
        """See execute.Meter."""
        if part == 0:
            self._ops.append(op)
        if part == 1:
            self._record()
        if part in _CYCLES:
            torch.cuda._sleep(_CYCLES[part])
        self._record()

    def round_over(self) -> None:
        """See execute.Meter."""

    def times(self) -> tuple[list[int], np.ndarray]:
        """The ops in the order in which they ran, and for each the ns of _PARTS."""
        torch.cuda.synchronize()
        fives = (self._events[i : i + 5] for i in range(0, len(self._events), 5))
        rows = [
            [start.elapsed_time(ready), go.elapsed_time(ran), ran.elapsed_time(end)]
            for start, ready, go, ran, end in fives
        ]
        return self._ops, np.round(1e6 * np.array(rows))

    def _record(self) -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)


class WallClock:
    """Times whole iterations, from the first op on: the bytes of the start are in their places by then."""

    def __init__(self) -> None:
        self._times: list[int] = []

    def mark(self, _op: int, _part: int) -> None:
        """See execute.Meter."""
        if not self._times:
            self.round_over()

    def round_over(self) -> None:
        """See execute.Meter."""
        torch.cuda.synchronize()
        self._times.append(time.perf_counter_ns())

    def stop(self) -> list[int]:
        """The ns of each iteration, until everything is done."""
        self.round_over()
        return [b - a for a, b in itertools.pairwise(self._times)]


def recorded(model: str, batch: int | None) -> program.StepProgram:
    """The step of a reference model, as stage_trace.py records it."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    torch.cuda.init()
    torch.backends.cuda.matmul.allow_tf32 = True
    kind = models.get(model)
    cost_model = OpCostModel(profiles.get("a100-80gb"), "tf32")
    generator = torch.cuda.default_generators[0]

    def build() -> Callable[[], object]:
        return kind.build(kind.setting(batch))

    return program.record(build, RealDevice(), cost_model, "cuda", generator)


def same_structure(one: Trace, other: Trace) -> bool:
    """Do two traces have the same ops on the same storages? When a program frees does not matter: the schedule does."""
    alike = list(one.name) == list(other.name)
    alike = alike and all(np.array_equal(getattr(one, key), getattr(other, key)) for key in _STRUCTURE)
    return alike and all(getattr(one, key).rows() == getattr(other, key).rows() for key in _ROWS)


def nothing_between() -> int:
    """The ns that two events show with nothing between them."""
    meter = Events()
    for _ in range(50):
        for part in range(4):
            meter.mark(0, part)
    return int(np.median(meter.times()[1]))


def compared(expected: dict[int, torch.Tensor], found: dict[int, torch.Tensor]) -> dict[str, Any]:
    """How many storages are the same bit by bit; of the rest, taken as float32, the largest difference.

    largest_relative: the same as a part of the storage's largest number. not_numbers: storages of the rest that hold
    infinities or NaN on either side.
    """
    same, absolute, relative, wild = 0, 0.0, 0.0, 0
    for storage, data in expected.items():
        other = found.get(storage)
        if other is None:
            continue
        if torch.equal(data, other):
            same += 1
        elif len(data) % 4 == 0:
            a, b = data.view(torch.float32), other.view(torch.float32)
            difference, scale = (a - b).abs().max().item(), a.abs().max().item()
            if math.isfinite(difference):
                absolute = max(absolute, difference)
                relative = max(relative, difference / scale if scale else math.inf)
            else:
                wild += 1
    return {
        "storages": len(expected),
        "found": len(found),
        "identical": same,
        "largest_difference": absolute,
        "largest_relative": relative,
        "not_numbers": wild,
    }


def machine_for(step: program.StepProgram, schedule: Schedule) -> execute.Machine:
    """What runs a schedule, in a block of its budget; of what it uses, where nothing is evicted."""
    top = int((schedule.address + schedule.bytes).max())
    size = schedule.header["budget_bytes"] if schedule.header["recomputes"] else top
    return execute.Machine(step, size, torch.device("cuda"), torch.cuda.default_generators[0])


def last_state(step: program.StepProgram, schedule: Schedule) -> dict[int, torch.Tensor]:
    """What a schedule hands on after its last step."""
    runner = machine_for(step, schedule)
    runner.run(execute.events(schedule))
    return runner.iterations[-1]


def predicted_steps(schedule: Schedule) -> dict[str, list[int]]:
    """By step, the ns that the schedule's ops take by the trace's costs, and without recomputation."""
    steps, per_step = schedule.header["steps"], schedule.header["base_step_cost_ns"]
    starts = [int(schedule.time_ns[schedule.step == k][0]) for k in range(steps)]
    ends = [*starts[1:], schedule.header["total_cost_ns"]]
    return {
        "total_ns": [end - start for start, end in zip(starts, ends, strict=True)],
        "base_ns": [per_step[k % len(per_step)] for k in range(steps)],
    }


def run(
    step: program.StepProgram, schedule: Schedule, empty_ns: int, reference: dict[int, torch.Tensor]
) -> dict[str, Any]:
    """Execute one schedule, and measure it. `reference`: the last state of the schedule without eviction."""
    happenings = execute.events(schedule)
    runner = machine_for(step, schedule)
    runner.run(happenings)  # before what is timed: the first use of a library takes memory and time
    states = {
        "after_first_step": compared(step.final, runner.iterations[0]),
        "after_last_step": compared(reference, runner.iterations[-1]),
    }
    runner.iterations.clear()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    walls = []
    for _ in range(_PASSES):
        clock = WallClock()
        runner.run(happenings, clock)
        walls.append(clock.stop())
    outside = torch.cuda.max_memory_allocated() - before
    samples, ops = [], []
    for _ in range(_PASSES):
        meter = Events()
        runner.run(happenings, meter)
        ops, times = meter.times()
        samples.append(times)
    medians = np.maximum(np.median(np.stack(samples), axis=0) - empty_ns, 0).round().astype(int)
    runs = [event for event in happenings if isinstance(event, execute.Run)]
    assert [r.op for r in runs] == ops
    keys = ("policy", "budget_bytes", "peak_bytes", "overhead", "base_cost_ns", "recompute_cost_ns", "recomputes")
    predicted = summary(schedule)
    return {
        "schedule": {key: predicted[key] for key in keys}
        | {"percent": schedule.header.get("percent"), "steps": predicted_steps(schedule)},
        "block_bytes": len(runner.block),
        "arena_peak_bytes": schedule.header["peak_bytes"],
        "outside_peak_bytes": outside,
        "largest_result_bytes": runner.largest_result_bytes,
        **states,
        "empty_pair_ns": empty_ns,
        "wall_ns": walls,
        "ops": ops,
        "again": [int(r.again) for r in runs],
        "step_starts": step_starts(happenings),
        **{part: medians[:, i].tolist() for i, part in enumerate(_PARTS)},
    }


def step_starts(happenings: list[execute.Event]) -> list[int]:
    """For each step, which of the runs of ops is its first."""
    starts, runs = [0], 0
    for event in happenings:
        if isinstance(event, execute.RoundEnd):
            starts.append(runs)
        runs += isinstance(event, execute.Run)
    return starts


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("batch", type=int, nargs="?")
    parser.add_argument("--ratios", type=float, nargs="+", default=[names.RATIO], help="of the peak (default: 0.5)")
    args = parser.parse_args()
    model, folder = args.model, args.folder
    start = machine.facts()
    step = recorded(model, args.batch)
    gc.collect()
    torch.cuda.empty_cache()
    trace = traces.load(folder / names.trace(model))
    if not same_structure(step.trace, trace):
        raise CoopsimError(f"{model}: a second recording has other ops than {names.trace(model)}")
    empty_ns = nothing_between()
    reference = last_state(step, schedules.load(folder / names.arena(model, names.PLAIN)))
    plain = [(names.PLAIN, names.RATIO)]
    for policy, ratio in plain + [(policy, ratio) for ratio in args.ratios for policy in names.POLICIES]:
        to = folder / names.execution(model, policy, ratio)
        if to.exists():
            continue
        found = run(step, schedules.load(folder / names.arena(model, policy, ratio)), empty_ns, reference)
        machine.write(to, {"model": model, "policy": policy, **found}, start)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
