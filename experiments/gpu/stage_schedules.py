"""Replay a recorded model in a part of its peak: python -m experiments.gpu.stage_schedules MODEL FOLDER [RATIO …].

Needs no GPU. For each policy and ratio (default: half) a schedule in an arena, which the GPU then executes, and at half
one on the caching allocator of this PyTorch, with segments where a card puts them, whose requests the GPU's allocator
then performs. Where a policy does not fit, the next larger budget in steps of 1 % that fits is taken; the schedule's
header has it.
"""

import dataclasses
import importlib.metadata
import sys
from pathlib import Path

from coopsim import trace as traces
from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import ARENA, Allocator, cuda_caching
from coopsim.simulate.replay import replay
from coopsim.trace import Trace
from coopsim.trace import schedule as schedules
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from experiments.gpu import names


def fitting(trace: Trace, policy: str, allocator: Allocator, ratio: float = names.RATIO) -> Schedule:
    """The schedule at the smallest budget, from this part of the peak on, that fits. CoopsimError if none does."""
    for percent in range(round(100 * ratio), 131):
        budget = peak_bytes(trace, 512) * percent // 100
        found = replay(trace, policy, budget, allocator, steps=names.ITERATIONS)
        if found.header["outcome"] == "ok":
            return dataclasses.replace(found, header=dict(found.header) | {"percent": percent})
    raise CoopsimError(f"{trace.label} under {policy} fits in no budget up to 130 % of its peak")


def main(model: str, folder: Path, ratios: list[float]) -> None:
    trace = traces.load(folder / names.trace(model))
    if trace.header["machine"]["phantom"]:  # whose ops take no time: for a rehearsal, a nanosecond a kilobyte
        trace = dataclasses.replace(trace, cost_ns=1 + trace.bytes_moved // 1000)
    torch = importlib.metadata.version("torch").partition("+")[0]
    stamp = {"machine": trace.header["machine"]}

    def save(found: Schedule, name: str) -> None:
        schedules.save(dataclasses.replace(found, header=dict(found.header) | stamp), folder / name)

    if not (folder / names.arena(model, names.PLAIN)).exists():
        budget = 2 * peak_bytes(trace, 512)
        found = replay(trace, "coop:placement=low", budget, steps=names.ITERATIONS)
        save(found, names.arena(model, names.PLAIN))
    for ratio in ratios:
        for policy in names.POLICIES:
            name = names.arena(model, policy, ratio)
            if not (folder / name).exists():
                save(fitting(trace, policy, ARENA, ratio), name)
    for policy in names.POLICIES if names.RATIO in ratios else ():
        if not (folder / names.caching(model, policy)).exists():
            save(fitting(trace, policy, cuda_caching(torch, driver="cuda")), names.caching(model, policy))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [float(text) for text in sys.argv[3:]] or [names.RATIO])
