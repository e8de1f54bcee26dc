"""coopsim plan F.csv|T: plan offsets for buffers with known lifetimes; print the height and its lower bound."""

import argparse
import json
from typing import Any

from coopsim.base.text import human, listed
from coopsim.base.types import GRANULE
from coopsim.trace import load_trace


def run(args: argparse.Namespace) -> int:
    from coopsim.base import files
    from coopsim.simulate import packing
    from coopsim.simulate.packing import minimalloc
    from coopsim.study.validate.plan import plan_faults

    if args.output:
        files.target(args.output)
    read = minimalloc.read(args.file) if str(args.file).lower().endswith(".csv") else _of_trace(args.file)
    items = read.items
    found = packing.plan(items)
    faults = plan_faults(
        items.bytes.tolist(),
        items.start.tolist(),
        items.end.tolist(),
        items.alignment.tolist(),
        found.offset.tolist(),
        found.height,
    )
    if faults:
        raise AssertionError(f"{args.file}: the planner is at fault: {faults[0]}")
    if args.output:
        minimalloc.write(read.text(found.offset), args.output)
    if args.json:
        facts = {
            "file": args.file,
            "items": len(items),
            "height": found.height,
            "lower_bound": found.lower_bound,
            "proven_bound": found.proven,
            "optimal": found.optimal,
            "work": found.work,
            "offsets": found.offset.tolist(),
        }
        print(json.dumps(facts, indent=1))
        return 0
    lines = [
        ("items", str(len(items))),
        ("height", f"{found.height} ({human(found.height)})"),
        ("lower bound", f"{found.lower_bound} (most bytes alive at once)"),
        ("optimal", _verdict(found)),
    ]
    print(listed(lines, 14))
    return 0


def _verdict(found: Any) -> str:
    if found.height == found.lower_bound:
        return "yes: no plan is lower than the bound"
    if found.optimal:
        return "yes: the search has shown that nothing lower fits"
    least = f"; none is lower than {found.proven}" if found.proven > found.lower_bound else ""
    return f"not known: {found.height / found.proven - 1:.2%} above the bound after {found.work} placements{least}"


def _of_trace(file: str) -> Any:
    """Return the requests of a trace as items, over all its recorded steps; time counts requests."""
    from coopsim.simulate.packing import Items, minimalloc
    from coopsim.trace.requests_of import of_trace

    nbytes, start, end = of_trace(load_trace(file), layout=False).lifetimes()
    return minimalloc.from_items(Items.of(-(-nbytes // GRANULE) * GRANULE, start, end, [GRANULE] * len(nbytes)))
