"""`python benchmarks/scaling.py -o DIR`: how time per op and per search grows with the trace and with what is resident.

Synthetic traces: a sequence of nets of `resident` layers each, sizes and costs drawn at random, every third layer with
a skip connection, trained one after the other (forward, backward) until there are `ops` ops. Replayed for one step at
90 % of the peak, where memory is fullest. Prints a line a replay; writes scaling.csv and scaling.png, with the exponent
that a line through the points in doubly logarithmic axes has.
"""

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from coopsim.files import replacing
from coopsim.options import ReplayOptions
from coopsim.replay import measure
from coopsim.trace.build import TraceBuilder
from coopsim.trace.measure import peak_bytes
from coopsim.trace.table import Trace
from coopsim.types import Phase, Role

POLICIES = ("coop", "coop-oneflow", "dte-oneflow", "dtr-oneflow", "dtr-eq", "lru")
GRANULE = 512
LABELS = {"coop": "Coop", "coop-oneflow": "Coop, published loop", "dte-oneflow": "DTE", "dtr-oneflow": "DTR (OneFlow)"}


def nets(ops: int, resident: int) -> Trace:
    """Nets of `resident` layers, one after the other, `ops` ops in all."""
    rng = np.random.default_rng(resident)
    b = TraceBuilder()
    x = b.storage(GRANULE, Role.INPUT, alive_at_start=True)
    for _ in range(max(1, ops // (2 * resident))):
        sizes = (GRANULE * rng.integers(1, 2000, resident)).tolist()
        costs = rng.integers(1000, 100_000, resident).tolist()
        kept: list[int] = []
        for i in range(resident):
            reads = [kept[-1] if kept else x] + ([kept[i - 3]] if i > 4 and i % 3 == 0 else [])
            kept.append(b.storage(sizes[i], Role.ACTIVATION))
            name = "aten.mm.default" if i % 2 else "aten.relu.default"
            b.op(name, reads=reads, creates=[kept[-1]], cost_ns=costs[i], phase=Phase.FORWARD)
        gradient = -1
        for i in reversed(range(resident)):
            new = b.storage(GRANULE, Role.ACTIVATION)
            reads = [kept[i], *([gradient] if gradient >= 0 else [])]
            b.op("aten.mm.default", reads=reads, creates=[new], cost_ns=costs[i], phase=Phase.BACKWARD)
            for gone in [*([gradient] if gradient >= 0 else []), kept[i]]:
                b.free(gone)
            gradient = new
        b.free(gradient)
    return b.build({"model": f"nets-{ops}-{resident}", "cost_source": "synthetic"})


def timed(trace: Trace, policy: str, runs: int) -> dict[str, Any]:
    """Best of some replays (the first also lowers the trace): ns per op run, per search and per block visited."""
    budget = int(peak_bytes(trace, GRANULE) * 0.9)
    best: dict[str, Any] = {}
    for _ in range(runs):
        began = time.process_time_ns()
        r = measure(trace, policy, budget, options=ReplayOptions(1))
        r["ns"] = time.process_time_ns() - began
        best = r if not best or r["ns"] < best["ns"] else best
    searches = max(1, best["searches"])
    return {
        "ops": trace.n_ops,
        "resident": best["max_blocks"],
        "policy": policy,
        "outcome": best["outcome"],
        "ns_per_op": round(best["ns"] / (trace.n_ops + best["recomputes"])),
        "searches": best["searches"],
        "evictions": best["evictions"],
        "visits_per_search": round(best["search_visits"] / searches),
        "ns_per_search": round(best["search_ns"] / searches),
        "ns_per_visit": round(best["search_ns"] / max(1, best["search_visits"]), 2),
    }


def exponent(points: list[tuple[float, float]]) -> float:
    """The slope of a line through the points in doubly logarithmic axes."""
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.0), layout="constrained", dpi=150)
    left, right = figure.subplots(1, 2)
    for policy in dict.fromkeys(r["policy"] for r in rows):
        mine = [r for r in rows if r["policy"] == policy]
        searched = [(r["resident"], r["ns_per_search"] / 1e3) for r in mine if r["group"] == "resident"]
        ran = [(r["ops"], r["ns_per_op"]) for r in mine if r["group"] == "ops"]
        name = LABELS.get(policy, policy)
        left.plot(*zip(*searched, strict=True), marker="o", ms=3, label=f"{name}: {exponent(searched):.2f}")
        right.plot(*zip(*ran, strict=True), marker="o", ms=3, label=f"{name}: {exponent(ran):.2f}")
    left.set(xlabel="resident blocks", ylabel="time per search [µs]", xscale="log", yscale="log")
    right.set(xlabel="ops in the trace", ylabel="time per op run [ns]", xscale="log", yscale="log")
    right.set_ylim(100, 100_000)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, title="exponent", title_fontsize=7)
    figure.savefig(folder / "scaling.png", metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/scaling"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--resident", type=int, nargs="+", default=[100, 300, 1000, 2000, 10_000, 30_000, 100_000])
    parser.add_argument("--ops", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    grid = [("resident", max(4 * n, 1000), n) for n in args.resident] + [("ops", n, 100) for n in args.ops]
    for group, ops, resident in grid:
        trace = nets(ops, resident)
        for policy in args.policies.split(","):
            row = {"group": group} | timed(trace, policy, args.runs if ops < 300_000 else 2)
            rows.append(row)
            print(*(f"{k}={v}" for k, v in row.items()), flush=True)
    with replacing(args.output / "scaling.csv") as path, Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, args.output)


if __name__ == "__main__":
    main()
