"""GMLake's figures on the traces and on random requests.

`python -m tests.simulate.allocators.serving.gmlake_goldens` writes them.
They were made by coopsim, and equal to those of the authors' release, request by request, when they were committed;
where the release crashes, up to there.
"""

import csv
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from coopsim.base.files import replacing
from coopsim.base.types import MIB
from coopsim.simulate.allocators.serving.gmlake import GmlakeOptions, run
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace
from tests.conftest import ROOT
from tests.proof_traces import load_of_the_proof
from tests.simulate.allocators.serving.gmlake_answers import Answer, answers, draw

FILE = Path(__file__).parent / "gmlake_goldens.csv"
STEPS = 5
SEEDS = range(200)
LIMITS = (512, 16)
COLUMNS = ("case", "requests", "peak_reserved", "peak_active", *Answer._fields[2:], "crc")


def requests_of(name: str, steps: int = STEPS) -> Requests:
    """What a trace asks for."""
    return of_trace(load_of_the_proof(name), iterations=steps // load_of_the_proof(name).n_steps, layout=False)


def traces() -> list[str]:
    return sorted(path.stem for path in (ROOT / "traces").glob("*.parquet"))


def of_traces(names: Iterable[str]) -> Iterator[list[str]]:
    """Rows of traces, with two limits; they have no crc, and none is refused anything."""
    for name in names:
        requests = requests_of(name)
        for limit in LIMITS:
            found = run(requests, GmlakeOptions(frag_limit=limit * MIB))
            peaks, count = (found.peak_reserved, found.peak_active, found.device_allocs), found.details
            counts = (count["stitches"], count["mapped_chunks"], 0, count["faults"])
            yield [f"{name} {limit}", *map(str, (len(requests), *peaks, *counts)), ""]


def of_random() -> Iterator[list[str]]:
    """Rows of random requests; their crc is of all answers."""
    for seed in SEEDS:
        ops, options = draw(seed)
        found = list(answers(ops, options))
        peaks = (max(a.reserved for a in found), max(a.active for a in found))
        counts = (*found[-1][2:5], sum(a.refused for a in found), found[-1].faults)
        crc = zlib.crc32("\n".join(" ".join(map(str, a)) for a in found).encode())
        yield [f"random {seed}", *map(str, (len(ops), *peaks, *counts, crc))]


def main() -> None:
    with replacing(FILE) as part, part.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *of_traces(traces()), *of_random()])


if __name__ == "__main__":
    main()
