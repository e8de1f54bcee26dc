"""`python benchmarks/scaling.py -o DIR`: how time per op and per search grows with the trace and with what is resident.

Synthetic traces: a sequence of nets of `resident` layers each, sizes and costs drawn at random, every third layer with
a skip connection, trained one after the other (forward, backward) until there are `ops` ops. Replayed for one step at
90 % of the peak, where memory is fullest. Prints a line per replay; writes scaling.csv and scaling.png.
"""

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from coopsim.base.files import replacing
from coopsim.base.types import Phase, Role
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure
from coopsim.study.figures import style
from coopsim.trace.build import TraceBuilder
from coopsim.trace.measure import peak_bytes
from coopsim.trace.table import Trace

POLICIES = ("coop", "coop-oneflow", "dte-oneflow", "dtr-oneflow", "dtr-eq", "lru")
GRANULE = 512
LABELS = {
    "coop": "Coop",
    "coop-oneflow": "Coop, published loop",
    "dte-oneflow": "DTE",
    "dtr-oneflow": "DTR",
    "dtr-eq": "DTR, its authors' classes",
    "lru": "LRU",
}
WIDE = (100, 100_000)


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


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Blocks visited and time per search against resident blocks; time per op against the length of the trace."""
    from matplotlib.figure import Figure

    names = style.order(r["policy"] for r in rows)
    looks = style.policies(names)
    with style.applied("column"):
        figure = Figure(figsize=(7.4, 2.7), layout="constrained", dpi=150)
        visits, times, ops = figure.subplots(1, 3)
        for name in names:
            searched = [r for r in rows if r["policy"] == name and r["group"] == "resident"]
            ran = [r for r in rows if r["policy"] == name and r["group"] == "ops"]
            look = {"color": looks[name].color, "marker": looks[name].marker}
            resident = [int(r["resident"]) for r in searched]
            visits.plot(resident, [int(r["visits_per_search"]) for r in searched], label=LABELS.get(name), **look)
            times.plot(resident, [int(r["ns_per_search"]) / 1e3 for r in searched], **look)
            ops.plot([int(r["ops"]) for r in ran], [int(r["ns_per_op"]) for r in ran], **look)
        visits.plot(WIDE, WIDE, color="#999999", linestyle=":", label="each block once")
        visits.set(xlabel="resident blocks", ylabel="blocks visited per search")
        times.set(xlabel="resident blocks", ylabel="time per search [µs]")
        ops.set(xlabel="ops in the trace", ylabel="time per op run [ns]", ylim=(100, 100_000))
        for axes in (visits, times, ops):
            axes.set(xscale="log", yscale="log")
            axes.grid()
        figure.legend(loc="outside lower center", ncols=len(names) + 1)
        with replacing(path) as new:
            figure.savefig(new, format="png", metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/scaling"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--resident", type=int, nargs="+", default=[100, 300, 1000, 2000, 10_000, 30_000, 100_000])
    parser.add_argument("--ops", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--draw", type=Path, metavar="CSV", help="draw the figures of an earlier run, and run nothing")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    if args.draw:
        with args.draw.open(newline="") as file:
            draw(list(csv.DictReader(file)), args.output / "scaling.png")
        return
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
    draw(rows, args.output / "scaling.png")


if __name__ == "__main__":
    main()
