"""Perform the requests of the caching allocator's schedules on the GPU.

Usage: python -m experiments.gpu.stage_requests MODEL FOLDER.

What `coopsim validate --against cuda` does: a fraction of the card as large as the schedule's, every
request in order.
"""

import dataclasses
import sys
from pathlib import Path

from coopsim.base.types import Action
from coopsim.study.oracle.against import compare
from coopsim.study.oracle.gpu import Gpu
from coopsim.trace import schedule as schedules
from coopsim.trace.requests_of import of_schedule
from experiments.gpu import machine, names


def main(model: str, folder: Path) -> None:
    start = machine.facts()
    found = {}
    real = Gpu(start["versions"]["torch"].partition("+")[0])
    for policy in names.POLICIES:
        schedule = schedules.load(folder / names.caching(model, policy))
        header = schedule.header
        performed = compare(of_schedule(schedule), real, header["alloc_conf"], header["budget_bytes"])
        if performed.recording is not None:
            performed.recording.save(folder / names.answers(model, policy))
        said = dataclasses.asdict(dataclasses.replace(performed, recording=None))
        del said["recording"]
        found[policy] = said | {"agrees": performed.agrees, "percent": header["percent"]}
        found[policy] |= {"refused_by_simulation": int((schedule.action == Action.REFUSE).sum())}
    machine.write(folder / names.requests(model), {"model": model, "policies": found}, start)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
