"""Steps that offload, beside those that recompute alone, with live's host on the phantom's clock: is it in time?

The rows that ran on an H100. Its host takes what live's model says (host.py), the card what ops cost, copies what
the link takes; the three overlap as they do on a card, and allocations that call the driver stop the card. A process
per row, on PyTorch's caching allocator with expandable segments; plans are made, tried and replanned as by `coopsim
live plan`. Times are those of the last two steps by plan: per step.

    python experiments/live/offload_host.py [MODEL...]
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from by_clock import FREE, Host
from memory import ROOT, recorded
from offload import OFFLOAD, RECOMPUTE, by_plan, read_rows, said_on, text_of, write_rows

OUT = ROOT / "experiments" / "expected" / "live" / "offload_host.csv"
CARD = "h100-80gb"
ROWS = {"gpt-2": "50%", "examples/train.py": "11176MiB", "12-layer transformer": "50%"}  #: and their budgets
TF32 = ("gpt-2", "examples/train.py")  #: in which it was allowed
MANY_COPIES = "12-layer transformer"  #: and time to lose
HALF, QUARTER = "pcie4-x16", "pcie3-x16"  #: of what the card's profile has
#: What a plan may do, the link it is made for, and the link that there is; "": the card's.
WAYS = (
    (RECOMPUTE, "", ""),
    (OFFLOAD, "", ""),
    ("offload, on a link of half the speed", "", HALF),
    ("offload, on a link of a quarter of the speed", "", QUARTER),
    ("offload, planned for that link", QUARTER, QUARTER),
)
COLUMNS = (
    *("model", "how", "budget_bytes", "fits", "allocated_bytes", "reserved_bytes", "plain", "planned", "plain_gpu"),
    *("plain_host", "planned_gpu", "planned_host", "keeps_ns", "clock_ns", "predicted_overhead", "clock_overhead"),
    *("stall_ms", "longest_stall_ms", "dear_stalls", "copies", "copied_bytes", "issued_late", "held", "retries"),
    *("recomputes", "host_bytes", "no_offload", "tries", "why"),
)
Row = dict[str, Any]


def measure(model: str) -> None:
    """In the child: the rows of one budget."""
    import torch

    from coopsim.base import budget
    from coopsim.cards import link as links
    from coopsim.live import host as model_of
    from coopsim.trace.measure import peak_bytes

    torch.backends.cuda.matmul.allow_tf32 = model in TF32
    per_op, again, copy = model_of.PLAIN_NS + model_of.FOLLOWED_NS, model_of.AGAIN_NS, model_of.COPY_NS
    with tempfile.TemporaryDirectory() as folder:
        plan = str(Path(folder, "plan"))
        steps = recorded(model, str(Path(folder, "recorded")))
        trace = steps.signatures[-1].trace
        peak = max(peak_bytes(k.trace, 512) for k in steps.signatures) + steps.others_bytes
        nbytes = budget.parse(ROWS[model], peak)
        keeps = by_plan(model, 2 * peak, steps, plan, host=Host(model_of.PLAIN_NS, 0, 0))["clock_ns"]
        for how, planned_for, has in WAYS if model == MANY_COPIES else WAYS[:2]:
            host = Host(per_op, again, copy, links.find(has, None, trace.header))
            row = by_plan(model, nbytes, steps, plan, RECOMPUTE if how == RECOMPUTE else OFFLOAD, host, planned_for)
            row |= {"keeps_ns": keeps, "clock_overhead": row.get("clock_ns", 0) / keeps or None}
            print(json.dumps({"model": model, "how": how} | row), flush=True)


def main(models: list[str]) -> None:
    """Write what was found beside what the file has of other models."""
    known = read_rows(OUT)
    for model in models:
        found = [text_of(row, COLUMNS) for row in said_on(CARD, __file__, "measure", model, variables=FREE)]
        known = [r for r in known if r["model"] != model] + found
        known.sort(key=lambda r: list(ROWS).index(r["model"]))
        write_rows(known, OUT, COLUMNS)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", model]:
            measure(model)
        case models:
            main(models or list(ROWS))
