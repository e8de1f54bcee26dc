"""Streams that STAlloc's released program served, and what `planned` makes of them.

`python -m tests.simulate.allocators.serving.stalloc_goldens` writes stalloc_goldens.csv and release_goldens.csv: do
that only where test_stalloc_originals.py passes.
"""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from coopsim.base.files import replacing
from coopsim.simulate.allocators.serving import release
from coopsim.simulate.allocators.serving.layout import LayoutOptions
from coopsim.simulate.allocators.serving.planned import run
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace
from tests.proof_traces import load_of_the_proof

GOLDENS = Path(__file__).with_name("stalloc_goldens.csv")
RELEASED = Path(__file__).with_name("release_goldens.csv")
TRACES = ("unet", "resnet-50", "gpt-2", "swin-t", "bert-large", "llama-1.1b", "spos", "moe")
DIFFERENT = ("spos", "moe")  #: whose steps are not alike


@cache
def requests_of(name: str, steps: int) -> Requests:
    trace = load_of_the_proof(name)
    return of_trace(trace, iterations=max(1, steps // trace.n_steps), layout=False)


def first_steps(requests: Requests, steps: int) -> Requests:
    """The requests of the first steps, and of no other."""
    n = int(np.count_nonzero(requests.step < steps))
    m = int(np.count_nonzero(requests.rows[:n, KIND] == ALLOCATE))
    rows, source, step, phase = (a[:n] for a in (requests.rows, requests.source, requests.step, requests.phase))
    return Requests(rows, source, step, phase, requests.labels[:m], requests.site[:m], requests.prologue)


def rows(names: Iterable[str] = TRACES) -> list[dict[str, str]]:
    found = []
    for name in names:
        for planned in range(1, 6 if name in DIFFERENT else 3):
            requests = requests_of(name, 5 if name in DIFFERENT else 3)
            result = run(requests, LayoutOptions(steps=planned))
            plan = result.details["plan_bytes"] - result.details["plan_bound"]
            row = {"trace": name, "steps_planned": planned, "bound": requests.peak_bytes(512)}
            row |= {"reserved": result.peak_reserved, "plan_above_bound": plan}
            found.append({key: str(value) for key, value in row.items()})
    return found


def released_rows() -> list[dict[str, str]]:
    """The same of `planned:release`, where steps differ."""
    found = []
    for name, reuse in (("spos", False), ("moe", False), ("moe", True)):
        result = release.run(requests_of(name, 5), release.ReleaseSettings(reuse=reuse))
        row = {"trace": name, "reuse": int(reuse), "reserved": result.peak_reserved, **result.details}
        found.append({key: str(value) for key, value in row.items()})
    return found


if __name__ == "__main__":
    for path, found in ((GOLDENS, rows()), (RELEASED, released_rows())):
        with replacing(path) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
