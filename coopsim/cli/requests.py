"""coopsim requests T: serve a trace's requests by several allocators, without eviction."""

import argparse
import json
from typing import Any

from coopsim.base.text import human, table
from coopsim.base.types import GRANULE, CoopsimError
from coopsim.cli.common import real_allocator
from coopsim.trace import load_trace

_UNALLOCATED = "reserved_but_unallocated"


def run(args: argparse.Namespace) -> int:
    from coopsim.simulate.allocators.caching import version
    from coopsim.simulate.allocators.caching.conf import parse
    from coopsim.simulate.kernel.jit import note_if_cold

    rules = version.find(args.torch)
    if args.against is not None and args.driver is not None:
        raise CoopsimError("--driver does not go with --against, which knows where the real one's segments lie")
    if args.against is not None:
        return _against(args)
    trace = load_trace(args.trace)
    for conf in args.alloc_conf or ():
        parse(conf, rules)  # reports errors before the wait
    note_if_cold("the allocator")
    print(_compare(args, trace))
    return 0


def _against(args: argparse.Namespace) -> int:
    """Ask the real allocator, too: the smallest card that serves the trace."""
    from coopsim.study.oracle.against import smallest_card
    from coopsim.trace.requests_of import of_trace

    real = real_allocator(args.against)
    trace = load_trace(args.trace)
    asked_for = of_trace(trace, iterations=max(1, -(-(args.steps or 1) // trace.n_steps)))
    rows, report, agrees = [], [], True
    for conf in dict.fromkeys(("", "expandable_segments:True", *(args.alloc_conf or ()))):
        s = smallest_card(asked_for, real, conf)
        agrees &= s.confirmed
        rows.append((conf or "(none)", human(s.total_bytes), s.at.requests, s.at.equal, "yes" if s.confirmed else "no"))
        report.append(
            {"conf": conf, "card_bytes": s.total_bytes, "requests": s.at.requests, "equal": s.at.equal}
            | {"confirmed": s.confirmed}
        )
    found_all = {"trace": trace.label, "torch": real.version, "agrees": agrees, "cards": report}
    header = ("settings", "smallest card", "requests", "equal on it", "served there, refused 2 MiB below")
    print(json.dumps(found_all, indent=1) if args.json else table(header, rows))
    return 0 if agrees else 1


def _compare(args: argparse.Namespace, trace: Any) -> str:
    """Return what each allocator reserves for the requests of a trace, without eviction."""
    from coopsim.simulate.allocators import DRIVER
    from coopsim.simulate.allocators.serving import caching, gmlake, planned, release
    from coopsim.trace.requests_of import of_trace

    iterations = max(1, -(-(args.steps or 1) // trace.n_steps))
    requests = of_trace(trace, iterations=iterations, layout=False)
    # In an imported history, PyTorch's allocator depended on the segments at its start. A recorded step is compared
    # from empty memory, where all allocators start.
    began = of_trace(trace, iterations=iterations) if trace.header.get("dependencies") == "unknown" else requests
    bound = requests.peak_bytes(GRANULE)
    settings = dict.fromkeys(("", "expandable_segments:True", *(args.alloc_conf or ())))
    results = (
        *(
            caching.run(began, caching.CachingOptions(args.torch, conf, driver=args.driver or DRIVER))
            for conf in settings
        ),
        gmlake.run(requests),
        planned.run(requests),
        release.run(requests),
    )
    rows: list[dict[str, Any]] = [
        {
            "allocator": r.allocator,
            "peak_reserved_bytes": r.peak_reserved,
            "over_bound": r.peak_reserved / bound - 1 if bound else 0.0,
            _UNALLOCATED: r.reserved_but_unallocated,
            "device_calls": r.device_allocs + r.device_frees,
        }
        for r in results
    ]
    if args.json:
        return json.dumps({"trace": trace.label, "lower_bound_bytes": bound, "allocators": rows}, indent=1)
    cells = [
        (r["allocator"], human(r["peak_reserved_bytes"]), *(f"{r[k]:.2%}" for k in ("over_bound", _UNALLOCATED)))
        for r in rows
    ]
    calls = [str(r["device_calls"]) for r in rows]
    header = ("allocator", "reserved at the peak", "over the bound", "reserved but unallocated", "device calls")
    found = table(header, [(*row, n) for row, n in zip(cells, calls, strict=True)])
    return f"{trace.label}: {human(bound)} alive at once, at most\n{found}"
