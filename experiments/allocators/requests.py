"""What each allocator reserves for the requests of the recorded traces, without eviction.

python -m experiments.allocators.requests    writes expected/{allocators,originals}.csv, a table of docs/allocators.md
"""

from pathlib import Path

import pandas as pd

from coopsim.base.progress import progress
from coopsim.simulate.allocators.serving import SERVING, Result, gmlake, planned, release
from coopsim.simulate.allocators.serving.layout import LayoutOptions
from coopsim.trace import load
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace
from experiments.common import arguments
from experiments.common.pages import write_section

HERE = Path(__file__).parents[1]
DENSE = ("resnet-50", "inception-v3", "unet", "swin-t", "bert-large", "bilstm", "gpt3-2.7b")
DYNAMIC = ("spos", "moe")
STEPS = 5
SERVED = HERE.parent / "tests/data/proof"  #: traces that have changed since STAlloc's program served them
MIB = 1 << 20

#: A row an allocator: those of SERVING with their defaults, and settings that change what they do. The rules of
#: STAlloc's release are beside it, in the table of the originals.
ALLOCATORS = {
    **{name: run for name, run in SERVING.items() if name != "planned:release"},
    "gmlake, from 16 MiB": lambda requests: gmlake.run(requests, gmlake.GmlakeOptions(frag_limit=16 * MIB)),
    "planned, all steps": lambda requests: planned.run(requests, LayoutOptions(steps=STEPS)),
}


def requests_for(name: str, folder: Path = HERE.parent / "traces") -> Requests:
    """Five steps: of a dense model the recorded one five times over."""
    trace = load(folder / f"{name}.parquet")
    return of_trace(trace, iterations=STEPS // trace.n_steps, layout=False)


def row(name: str, allocator: str, requests: Requests, found: Result) -> dict[str, object]:
    """One allocator on one trace."""
    return {
        "trace": name,
        "allocator": allocator,
        "lower_bound": requests.peak_bytes(512),
        "peak_requested": found.peak_requested,
        "peak_allocated": found.peak_allocated,
        "peak_active": found.peak_active,
        "peak_reserved": found.peak_reserved,
        "fragmentation_allocated": round(found.reserved_but_unallocated, 6),
        "fragmentation_active": round(found.reserved_but_inactive, 6),
        "fragmentation": round(found.fragmentation, 6),
        "device_allocs": found.device_allocs,
        "details": " ".join(f"{key}={value}" for key, value in found.details.items()),
    }


def markdown(table: pd.DataFrame) -> str:
    """A row per trace: the lower bound, and each allocator's reserved memory above it."""
    names = list(dict.fromkeys(table.allocator))
    lines = [f"| trace | lower bound, MiB | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for trace, part in table.groupby("trace", sort=False):
        bound = int(part.lower_bound.iloc[0])
        cells = [f"{100 * (reserved / bound - 1):.2f}" for reserved in part.peak_reserved]
        lines.append(f"| {trace} | {bound / MIB:.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def beside_originals() -> pd.DataFrame:
    """Eight streams under the released programs of STAlloc (expected/stalloc.csv) and GMLake, PyTorch's, and ours.

    Reserved memory above the bound in %. `stalloc_plan` is the released planner's height, of two steps; `stalloc` its
    allocator's peak of three steps (SPOS and the mixture of experts: five), of which two were planned, in the best of
    the settings that were tried. GMLake's is ours, which equals it; `planned` plans two steps.
    """
    theirs = pd.read_csv(HERE / "expected" / "stalloc.csv").set_index("trace")
    runs = {
        **dict(list(SERVING.items())[:3]),
        "planned:release": lambda requests: release.run(requests, release.ReleaseSettings(reuse=True)),
        "planned": lambda requests: planned.run(requests, LayoutOptions(steps=2)),
    }
    rows = []
    for name, row in theirs.iterrows():
        as_served = (SERVED / f"{name}.parquet").exists()
        requests = requests_for(str(name), SERVED) if as_served else requests_for(str(name))
        bound = requests.peak_bytes(512)
        above = {name: 100 * (run(requests).peak_reserved / bound - 1) for name, run in runs.items()}
        above["stalloc_plan"] = 100 * (row.plan_height / row.plan_bound - 1)
        above["stalloc"] = 100 * (row.device_bytes / bound - 1)
        rows.append({"stream": name, "bound_mib": round(bound / MIB)} | {k: round(v, 2) for k, v in above.items()})
    return pd.DataFrame(rows)[["stream", "bound_mib", *list(runs)[:3], "stalloc_plan", "stalloc", *list(runs)[3:]]]


def main() -> None:
    rows = []
    with progress("traces and allocators", len(DENSE + DYNAMIC) * len(ALLOCATORS)) as tick:
        for name in DENSE + DYNAMIC:
            requests = requests_for(name)
            for allocator, run in ALLOCATORS.items():
                rows.append(row(name, allocator, requests, run(requests)))
                tick()
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "expected" / "allocators.csv", index=False)
    print(markdown(table))
    write_section("allocators", markdown(table))
    beside_originals().to_csv(HERE / "expected" / "originals.csv", index=False)


if __name__ == "__main__":
    arguments.none(__doc__)
    main()
