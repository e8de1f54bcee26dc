"""How much of the search latency a GPU hides: BERT-Large at half its peak, ten steps, by the price of a visit.

    python -m experiments.policies.timeline        writes expected/timeline.csv

In an arena, a search costs the host 15 (the shipped price), 150, 500 and 1500 ns per block visited. On PyTorch's
caching allocator, where cudaMalloc and cudaFree cost the host time as well, the shipped price only.
"""

from dataclasses import replace

import pandas as pd

from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import load_params, simulate, summary
from coopsim.trace import load
from experiments.figures.experiment import EXPECTED, ROOT

POLICIES = ("dtr-oneflow", "dte-oneflow", "coop")
PRICES = {"arena": (15, 150, 500, 1500), "cuda-caching": (15,)}
STEPS = 10


def main() -> None:
    trace, shipped = load(ROOT / "traces" / "bert-large.parquet"), load_params()
    rows = []
    for allocator, prices in PRICES.items():
        for policy in POLICIES:
            schedule = replay(trace, policy, "50%", allocator=allocator, steps=STEPS)
            for price in prices:
                found = summary(simulate(schedule, trace, replace(shipped, search_ns_per_visit=price)))
                rows.append({"allocator": allocator, "policy": policy, "search_ns_per_visit": price, **shown(found)})
    pd.DataFrame(rows).to_csv(EXPECTED / "timeline.csv", index=False, float_format="%.4f")


def shown(found: dict[str, int | float | None]) -> dict[str, float]:
    """Of the figures of a timeline those that the page refers to: milliseconds and calls per step."""
    ms = {
        name: found[f"{name}_ns"] / STEPS / 1e6 for name in ("step", "search", "exposed_search", "exposed_device_calls")
    }
    calls = {name: found[name] / STEPS for name in ("device_allocs", "device_failures", "device_frees")}
    ms["step"] *= STEPS  # a mean already
    return {f"{name}_ms": value for name, value in ms.items()} | calls


if __name__ == "__main__":
    main()
