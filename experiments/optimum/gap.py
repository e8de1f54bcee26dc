"""How far every policy is from the optimum on small traces: synthetic ones, and real models made small.

python -m experiments.optimum.gap                writes expected/gap.csv; minutes
python -m experiments.optimum.gap --policies     replays the policies again and keeps the optima of expected/gap.csv
"""

from pathlib import Path

import pandas as pd

from coopsim.base.progress import progress
from coopsim.simulate import policies
from coopsim.study import optimum
from coopsim.trace import load_trace
from coopsim.trace.measure import peak_bytes
from experiments.common import arguments

HERE = Path(__file__).parents[1]
REAL = HERE.parent / "tests/data/gap"
EXPECTED = HERE / "expected" / "gap.csv"
BEST = ["trace", "ops", "memory_ratio", "status", "optimum", "lower_bound"]
TRACES = ("chain:8", "chain:12", "tree:3", "unet:2", "unet:4", "holes:4", "holes:8", "mlp", "resnet", "lstm", "bert")
COLUMNS = ("policy", "outcome", "overhead", "arena_outcome", "arena_overhead")
RATIOS = (0.8, 0.6)
SECONDS = 40
#: beside all policies: Coop without each of its parts
PARTS = ("coop:in_place=copy_outputs", "coop:search=greedy,divisor=hole", "coop:placement=low")


def measure(name: str, ratio: float, names: list[str], seconds: float = SECONDS) -> list[dict[str, object]]:
    """One trace in one budget: a row a policy."""
    trace = load_trace(f"synth:{name}" if ":" in name else str(REAL / f"{name}.parquet"))
    peak = peak_bytes(trace)
    found = optimum.gap_in(trace, int(ratio * peak), peak, names, seconds=seconds)
    best = {
        "trace": name,
        "ops": trace.n_ops,
        "memory_ratio": ratio,
        "status": found.optimum.status,
        "optimum": found.optimum.overhead,
        "lower_bound": found.optimum.lower_bound,
    }
    return [best | {key: getattr(row, key) for key in COLUMNS} for row in found.rows]


def policies_again(table: pd.DataFrame, names: list[str]) -> list[dict[str, object]]:
    """The rows of all policies beside the optima that a table has."""
    rows: list[dict[str, object]] = []
    for best in table[BEST].drop_duplicates().to_dict("records"):
        found = measure(best["trace"], best["memory_ratio"], names, seconds=0)
        rows += [row | {str(key): value for key, value in best.items()} for row in found]
    return rows


def main(*, keep: bool) -> None:
    names = [name for name in policies.names() if not policies.find(name).offloads]
    names[1:1] = PARTS
    rows = policies_again(pd.read_csv(EXPECTED), names) if keep else []
    with progress("traces and budgets", 0 if keep else len(TRACES) * len(RATIOS)) as tick:
        for ratio in () if keep else RATIOS:
            for name in TRACES:
                rows += measure(name, ratio, names)
                tick()
    table = pd.DataFrame(rows)
    table.round(6).to_csv(EXPECTED, index=False)


if __name__ == "__main__":
    parser = arguments.parser(__doc__)
    parser.add_argument("--policies", action="store_true", help="replay the policies again, keep the optima")
    main(keep=parser.parse_args().policies)
