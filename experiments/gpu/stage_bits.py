"""Do schedules leave the bits of the program? python -m experiments.gpu.stage_bits MODEL FOLDER [BATCH].

As stage_execute.py compares them, but with deterministic algorithms, in a process of its own: kernels that sum in a
fixed order are others, with other workspaces, which what is timed must not have. Without them a step may differ from
itself.
"""

import os
import sys
from pathlib import Path

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

from coopsim import trace as traces
from coopsim.base.types import CoopsimError
from coopsim.trace import schedule as schedules
from experiments.gpu import execute, machine, names
from experiments.gpu.stage_execute import compared, machine_for, recorded, same_structure


def main(model: str, folder: Path, batch: int | None) -> None:
    start = machine.facts()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    step = recorded(model, batch)
    if not same_structure(step.trace, traces.load(folder / names.trace(model))):
        raise CoopsimError(f"{model}: with deterministic algorithms it has other ops than {names.trace(model)}")
    reference: dict[int, torch.Tensor] | None = None
    found = {}
    for policy in (names.PLAIN, *names.POLICIES):
        schedule = schedules.load(folder / names.arena(model, policy))
        runner = machine_for(step, schedule)
        for _ in range(2 if reference is None else 1):  # the plain one is compared with itself, run again
            runner.run(execute.events(schedule))
            reference = reference or runner.iterations[-1]
        ends = {"after_first_step": compared(step.final, runner.iterations[0])}
        found[policy] = ends | {"after_last_step": compared(reference, runner.iterations[-1])}
        del runner
        torch.cuda.empty_cache()
    machine.write(folder / names.bits(model), {"model": model, "policies": found}, start)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
