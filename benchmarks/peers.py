"""`python benchmarks/peers.py`: programs that we did not write, beside ours, on the same inputs in one run.

    python benchmarks/peers.py --simrd CHECKOUT/simrd [--every 12]    # DTR's simulator, on its own logs
    python benchmarks/peers.py --minimalloc PROGRAM --instances DIR    # offset plans for known lifetimes
    python benchmarks/peers.py --torch 2.15.0                          # the real caching allocator, through the oracle

Prints ratios of processor time, theirs over ours, and whether the results are the same. Give any of the three. The
logs of simrd are unpacked from its checkout (`logs.zip`); its package needs `attrs`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

RATIOS = [k / 10 for k in range(1, 10)]


def simrd(checkout: Path, every: int) -> None:
    """The setting of DTR's paper: 8 logs, 6 heuristics, 9 budgets, overhead limit 2; or each `every`-th of these."""
    sys.path.insert(0, str(checkout))
    sys.setrecursionlimit(100_000)
    from simrd import heuristic as heuristics
    from simrd import runtime as runtimes
    from simrd.parse import parse_file

    from tests.peers.simrd import POLICIES, import_log, measure_simrd

    theirs: dict[str, float] = defaultdict(float)
    ours: dict[str, float] = defaultdict(float)
    n = same = 0
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(checkout / "logs.zip").extractall(folder)
        for model in json.loads((Path(folder) / "logs/manifest.json").read_text())["models"]:
            log = Path(folder) / model["log"]
            trace = import_log(log)
            with log.open() as file:
                call = parse_file(file, start=model["has_start"]).get_closure()
            peak = trace.header["simrd"]["baseline_peak_bytes"]
            base = int(trace.cost_ns.sum())
            measure_simrd(trace, "lru", peak)  # compiles, and lowers the trace
            for name, (_, cls) in POLICIES.items():
                for ratio in RATIOS:
                    n += 1
                    if n % every:
                        continue
                    budget = int(peak * ratio)
                    began = time.process_time()
                    found = measure_simrd(trace, name, budget, 2.0)
                    ours[name] += time.process_time() - began
                    run = runtimes.RuntimeV2EagerOptimized(
                        budget, getattr(heuristics, cls)(), remat_limit=base, trace=False, stats=False
                    )
                    began = time.process_time()
                    try:
                        call(run)
                        outcome = "ok"
                    except MemoryError:
                        outcome = "oom"
                    except runtimes.RematExceededError:
                        outcome = "thrash"
                    theirs[name] += time.process_time() - began
                    cost = run.telemetry.summary["remat_compute"]
                    same += (outcome, cost) == (found["outcome"], found["recompute_cost_ns"])
            print(f"# {model['name']}: {theirs_over(theirs, ours):.0f} so far", flush=True)
    for name in ours:
        print(f"simrd, {name:<24}{theirs[name] / ours[name]:8.0f}")
    print(f"simrd, all                    {theirs_over(theirs, ours):8.0f}")
    print(f"same outcome and cost: {same} of {n // every}", flush=True)


def theirs_over(theirs: dict[str, float], ours: dict[str, float]) -> float:
    return sum(theirs.values()) / sum(ours.values())


def minimalloc(program: Path, instances: Path) -> None:
    """Each instance: MiniMalloc below the height that we found, and we; the time of each."""
    from coopsim.simulate.packing import plan
    from coopsim.simulate.packing.minimalloc import read

    for file in sorted(instances.glob("*.csv")):
        table = read(file)
        plan(table.items)  # compiles
        began = time.process_time()
        found = plan(table.items)
        ours = time.process_time() - began
        with tempfile.NamedTemporaryFile(suffix=".csv") as output:
            command = [program, f"--capacity={found.height}", f"--input={file}", f"--output={output.name}"]
            began = time.perf_counter()
            done = subprocess.run([*command, "--timeout=60s"], capture_output=True, text=True, check=False)  # noqa: S603
            seconds = time.perf_counter() - began
            fits = done.returncode == 0 and len(Path(output.name).read_text().splitlines()) > 1
        verdict = "found too" if fits else "not found in 60 s"
        print(f"minimalloc, {file.stem:<20}{seconds / ours:8.2f}   height {found.height}: {verdict}", flush=True)


def caching(version: str) -> None:
    """See benchmarks/allocator.py."""
    subprocess.run([sys.executable, ROOT / "benchmarks/allocator.py", "--torch", version], check=True)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simrd", type=Path, metavar="DIR")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of simrd's 432 replays each N-th")
    parser.add_argument("--minimalloc", type=Path, metavar="PROGRAM")
    parser.add_argument("--instances", type=Path, metavar="DIR")
    parser.add_argument("--torch", metavar="V")
    args: Any = parser.parse_args()
    if args.simrd:
        simrd(args.simrd, args.every)
    if args.minimalloc:
        minimalloc(args.minimalloc, args.instances)
    if args.torch:
        caching(args.torch)
    if not (args.simrd or args.minimalloc or args.torch):
        parser.error("name a peer")


if __name__ == "__main__":
    main()
