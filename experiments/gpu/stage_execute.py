"""Execute a model's schedules on the GPU: python -m experiments.gpu.stage_execute MODEL FOLDER [BATCH].

The step is recorded again, with the arguments of its ops; then each schedule runs in a block of its budget: once to
compare the parameters that it leaves after its first round with those that the program itself left, three times with
events around every op, and three times without, for the time of the whole.
"""

import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coopsim import schedule as schedules
from coopsim import trace as traces
from coopsim.capture import models
from coopsim.capture.costs import CostModel
from coopsim.capture.device import RealDevice
from coopsim.metrics import summary
from coopsim.phantom import profiles
from coopsim.schedule import Schedule
from coopsim.trace import Trace
from coopsim.types import CoopsimError
from experiments.gpu import execute, machine, names, program

_CYCLES = 600_000  #: some 0.3 ms: a kernel sleeps so long before each op, so that the host is ahead of the GPU
_PASSES = 3
_PARTS = ("prepare_ns", "op_ns", "place_ns")
_STRUCTURE = ("bytes", "freed", "freed_after", "becomes")
_ROWS = ("reads", "mutates", "creates")


class Events:
    """Times what a run does, between events."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, Any]] = []

    def mark(self, op: int, part: int) -> None:
        """See execute.Meter."""
        if part == 0:
            torch.cuda._sleep(_CYCLES)
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((op, event))

    def times(self) -> tuple[list[int], np.ndarray]:
        """The ops in the order in which they ran, and for each the ns of _PARTS."""
        torch.cuda.synchronize()
        events = [event for _, event in self._marks]
        rows = [
            [round(1e6 * a.elapsed_time(b)) for a, b in zip(events[i : i + 3], events[i + 1 : i + 4], strict=True)]
            for i in range(0, len(events), 4)
        ]
        return [op for op, _ in self._marks[::4]], np.array(rows)


class WallClock:
    """Times the whole, from the first op on: the bytes of the start are in their places by then."""

    def __init__(self) -> None:
        self._start = 0

    def mark(self, _op: int, _part: int) -> None:
        """See execute.Meter."""
        if not self._start:
            torch.cuda.synchronize()
            self._start = time.perf_counter_ns()

    def stop(self) -> int:
        """The ns until everything is done."""
        torch.cuda.synchronize()
        return time.perf_counter_ns() - self._start


def recorded(model: str, batch: int | None) -> program.StepProgram:
    """The step of a reference model, as stage_trace.py records it."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    torch.cuda.init()
    torch.backends.cuda.matmul.allow_tf32 = True
    kind = models.get(model)
    cost_model = CostModel(profiles.get("a100-80gb"), "tf32")
    generator = torch.cuda.default_generators[0]

    def build() -> Callable[[], object]:
        return kind.build(kind.setting(batch))

    return program.record(build, RealDevice(), cost_model, "cuda", generator)


def same_structure(one: Trace, other: Trace) -> bool:
    """Do two traces have the same ops on the same storages?"""
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
    """How many storages are the same bit by bit; of the rest, taken as float32, the largest difference."""
    same, worst = 0, 0.0
    for storage, data in expected.items():
        other = found.get(storage)
        if other is None:
            continue
        if torch.equal(data, other):
            same += 1
        elif len(data) % 4 == 0:
            difference = (data.view(torch.float32) - other.view(torch.float32)).abs().max().item()
            worst = max(worst, difference)
    return {"storages": len(expected), "found": len(found), "identical": same, "largest_difference": worst}


def run(step: program.StepProgram, schedule: Schedule, empty_ns: int) -> dict[str, Any]:
    """Execute one schedule, and measure it."""
    device = torch.device("cuda")
    happenings = execute.events(schedule)
    budget = schedule.header["budget_bytes"]
    used = schedule.header["peak_bytes"]
    size = budget if schedule.header["recomputes"] else int((schedule.address + schedule.bytes).max())
    runner = execute.Machine(step, size, device, torch.cuda.default_generators[0])
    runner.run(happenings)  # the first use of a library takes memory and time
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    runner.run(happenings)
    torch.cuda.synchronize()
    outside = torch.cuda.max_memory_allocated() - before
    after_one = dict(runner.first_round)
    samples, ops = [], []
    for _ in range(_PASSES):
        meter = Events()
        runner.run(happenings, meter)
        ops, times = meter.times()
        samples.append(times)
    walls = []
    for _ in range(_PASSES):
        clock = WallClock()
        runner.run(happenings, clock)
        walls.append(clock.stop())
    medians = np.maximum(np.median(np.stack(samples), axis=0) - empty_ns, 0).round().astype(int)
    runs = [event for event in happenings if isinstance(event, execute.Run)]
    assert [r.op for r in runs] == ops
    keys = ("policy", "budget_bytes", "peak_bytes", "overhead", "base_cost_ns", "recompute_cost_ns", "recomputes")
    predicted = summary(schedule)
    return {
        "schedule": {key: predicted[key] for key in keys} | {"percent": schedule.header.get("percent")},
        "block_bytes": size,
        "arena_peak_bytes": used,
        "outside_peak_bytes": outside,
        "largest_result_bytes": runner.largest_result_bytes,
        "after_first_round": compared(step.final, after_one),
        "empty_pair_ns": empty_ns,
        "wall_ns": walls,
        "wall_median_ns": int(statistics.median(walls)),
        "totals_ns": dict(zip(_PARTS, medians.sum(axis=0).tolist(), strict=True)),
        "ops": ops,
        "again": [int(r.again) for r in runs],
        **{part: medians[:, i].tolist() for i, part in enumerate(_PARTS)},
    }


def main(model: str, folder: Path, batch: int | None) -> None:
    start = machine.facts()
    step = recorded(model, batch)
    gc.collect()
    torch.cuda.empty_cache()
    trace = traces.load(folder / names.trace(model))
    if not same_structure(step.trace, trace):
        raise CoopsimError(f"{model}: a second recording has other ops than {names.trace(model)}")
    empty_ns = nothing_between()
    for policy in (names.PLAIN, *names.POLICIES):
        to = folder / names.execution(model, policy)
        if to.exists():
            continue
        schedule = schedules.load(folder / names.arena(model, policy))
        found = run(step, schedule, empty_ns)
        machine.write(to, {"model": model, "policy": policy, **found}, start)
        print(json.dumps({"model": model, "policy": policy, "totals_ns": found["totals_ns"]}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
