"""Record a reference model on the GPU with measured costs.

Usage: python -m experiments.gpu.stage_trace MODEL FOLDER [BATCH]."""

import dataclasses
import sys
import tempfile
from pathlib import Path

from coopsim import trace
from coopsim.record.capture import Job, capture
from experiments.gpu import machine, names


def main(model: str, folder: Path, batch: int | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "trace.parquet")
        start = {"date": machine.now(), "nvidia_smi": machine.clocks()}
        capture(Job(model, file, device="cuda", batch=batch, steps=names.steps(model)))
        recorded = trace.load(file)
    facts = machine.facts() | start
    stamp = facts | {"date_end": machine.now(), "nvidia_smi_end": machine.clocks()}
    header = dict(recorded.header) | {"machine": stamp}
    trace.save(dataclasses.replace(recorded, header=header), folder / names.trace(model))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
