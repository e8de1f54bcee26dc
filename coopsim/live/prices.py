"""What the ops of a recorded step cost the GPU: as they were timed on a card, else their prices. Knows no torch.

Costs are in ns; the costs of a trace are those of its ops, in order.
"""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any, Protocol

import numpy as np

from coopsim.live.signatures import Signature
from coopsim.schedule import Schedule
from coopsim.trace import Trace
from coopsim.types import Action

PRICED_ON = "priced_on"  #: in a trace's header, the card on which its ops were timed
_FACTOR, _BESIDES_NS = 100, 1_000_000  #: a time is not believed that is so many times the price, and this more


class LoggedCall(Protocol):
    """An entry of a step's op log."""

    func: Any
    shapes: Any  #: of its operands, of its results


def believed(price: Mapping[int, int], like: Mapping[int, Hashable], read: Mapping[int, int]) -> dict[int, int]:
    """Costs of ops in ns: what was read of each; else the median of what was read of its like, or its price.

    Keys are numbers of ops. like: what calls have in common that take as long, such as op and sizes. A reading is left
    out that is more than 100 times the price and 1 ms more.
    """
    read = {op: ns for op, ns in read.items() if op in price and ns <= _FACTOR * price[op] + _BESIDES_NS}
    found: dict[Hashable, list[int]] = {}
    for op, ns in read.items():
        found.setdefault(like.get(op), []).append(ns)
    middle = {key: round(median(times)) for key, times in found.items() if key is not None}
    return {op: read[op] if op in read else middle.get(like.get(op), ns) for op, ns in price.items()}


def priced(
    card: str, price: Mapping[int, int], entries: Mapping[int, LoggedCall], read: Mapping[int, int]
) -> tuple[dict[int, int], dict[str, str]]:
    """Costs of ops in ns by times that were read on a card (`believed`), and entries for the trace's header.

    entries: of the op log, by number of the op, as are prices and times. Calls of one op on the same sizes are alike.
    """
    like = {number: (entry.func, *entry.shapes[:2]) for number, entry in entries.items()}
    share = f"{len(like.keys() & read.keys())} of {len(like)} ops"
    source = f"measured on {card}: CUDA events around {share} of one step, after a sleep; the rest by prices"
    return believed(price, like, read), {PRICED_ON: card, "cost_source": source}


def repriced(signature: Signature, schedule: Schedule, read: Mapping[int, int], card: str) -> tuple[Trace, Schedule]:
    """The trace of a step signature, and its schedule, with the costs of ops that were timed on a card.

    read: times by number of the op in the trace. What the schedule waits for copies stays as it was.
    """
    trace = signature.trace
    entries = {entry.op: entry for entry in signature.op_log if entry.op >= 0}
    found, about = priced(card, dict(enumerate(trace.cost_ns.tolist())), entries, read)
    costs = np.array(list(found.values()), np.int64)
    timed = replace(trace, cost_ns=costs, header=dict(trace.header) | about)
    ran = schedule.op[np.isin(schedule.action, (Action.COMPUTE, Action.RECOMPUTE))]
    head = dict(schedule.header)
    more = int(costs[ran].sum() - trace.cost_ns[ran].sum())
    head["total_cost_ns"] += more
    head["recompute_cost_ns"] += more - int(costs.sum() - trace.cost_ns.sum())
    head |= {"base_step_cost_ns": [int(costs.sum())], "trace": timed.content_hash}
    return timed, replace(schedule, header=head)
