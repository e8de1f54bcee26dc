"""What policies recompute: the time of recomputations by kind of op, on the eight models at half the peak.

    python -m experiments.paper.recomputed        writes expected/recomputed.csv

Counted is the third iteration of the trace, where Foresight follows its plan if the step repeats, of replays that fit
for ten steps (of longer traces, for three iterations) in one arena.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from coopsim.base.progress import progress
from coopsim.base.types import Action, Outcome
from coopsim.simulate.replay import replay
from coopsim.trace import Trace, load
from experiments.common import arguments
from experiments.figures.experiment import EXPECTED
from experiments.policies.compare import LIMIT

HERE = Path(__file__).parents[1]
BOUNDS = EXPECTED / "bounds.csv"
MODELS = ("resnet-50", "inception-v3", "unet", "swin-t", "bert-large", "bilstm", "spos", "gpt3-2.7b")
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop", "thrift", "foresight")
RATIO = 0.5
STEPS = 10  # as everywhere
PRODUCTS, NORMALISATION, COPIES, REST = KINDS = (
    "matrix products, convolutions",
    "normalisation",
    "copies",
    "activations, sums, dropout, softmax, pooling",
)
_COPIES = ("cat", "clone", "constant_pad_nd", "roll", "_to_copy", "index", "copy_")


def kind(trace: Trace, op: int) -> str:
    """Of an op. Products are what PyTorch's counter of operations counts, and the cell of an LSTM."""
    name = trace.name[op].split(".")[1]
    if trace.flops[op] > 0 or "lstm" in name:
        return PRODUCTS
    if "norm" in name:
        return NORMALISATION
    return COPIES if name in _COPIES else REST


def rows(trace: Trace, budget: int) -> list[dict[str, Any]]:
    """A row a policy that fits and a kind: the time of its recomputations, of that of an iteration without any."""
    found = []
    for policy in POLICIES:
        schedule = replay(trace, policy, budget, steps=max(STEPS, 3 * trace.n_steps), overhead_limit=LIMIT)
        if schedule.header["outcome"] == Outcome.OK:
            third = (schedule.step // trace.n_steps == 2) & (schedule.action == Action.RECOMPUTE)
            spent = dict.fromkeys(KINDS, 0)
            for op in schedule.op[third].tolist():
                spent[kind(trace, op)] += int(trace.cost_ns[op])
            base = int(trace.cost_ns.sum())
            found += [{"policy": policy, "kind": k, "share": ns / base} for k, ns in spent.items()]
    return found


def main() -> None:
    bounds = pd.read_csv(BOUNDS)
    made = []
    with progress("models", len(MODELS)) as tick:
        for model in MODELS:
            trace = load(HERE.parent / "traces" / f"{model}.parquet")
            (cell,) = bounds[(bounds.trace == model) & (bounds.memory_ratio == RATIO)].itertuples()
            made += [{"trace": model, **row} for row in rows(trace, cell.budget_bytes)]
            tick()
    pd.DataFrame(made).to_csv(EXPECTED / "recomputed.csv", index=False, float_format="%.6f")


if __name__ == "__main__":
    arguments.none(__doc__)
    main()
