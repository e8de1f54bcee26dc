"""Record a reference model on the phantom GPU, as the card of the results.

Usage: python -m experiments.gpu.stage_phantom MODEL FOLDER [BATCH].

With the PyTorch that is installed here, so that what differs from the GPU's trace is not a matter of versions.
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from coopsim import trace
from coopsim.cards import profiles
from coopsim.record.capture import CaptureError, Job, capture
from experiments.gpu import names


def card_of(gpu: str) -> str:
    """The profile with this name. CaptureError if there is none."""
    for name in profiles.names():
        if profiles.get(name).title == gpu:
            return name
    raise CaptureError(f"no profile of the phantom GPU is called {gpu}")


def main(model: str, folder: Path, batch: int | None) -> None:
    machine = json.loads((folder / names.MACHINE).read_text())["machine"]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "trace.parquet")
        capture(Job(model, file, card=card_of(machine["gpu"]), batch=batch, steps=names.steps(model)))
        recorded = trace.load(file)
    header = dict(recorded.header) | {"machine": machine | {"phantom": True}}
    trace.save(dataclasses.replace(recorded, header=header), folder / names.phantom(model))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
