"""coopsim validate S: check whether a schedule is sound; compare it with the real allocator."""

import argparse
import json
from typing import Any

from coopsim.base.progress import note
from coopsim.base.text import human, table
from coopsim.base.types import CoopsimError
from coopsim.cli.common import real_allocator
from coopsim.cli.traces import trace_of

_SETTINGS = ("", "expandable_segments:True")


def run(args: argparse.Namespace) -> int:
    from coopsim.study.validate import validate
    from coopsim.trace.schedule import load

    schedule = load(args.schedule)
    if schedule.header.get("semantics", "general") != "general":
        rules = schedule.header["semantics"]
        raise CoopsimError(f"{args.schedule} follows the rules of {rules}; it cannot be validated")
    faults = validate(schedule, trace_of(schedule, args.trace, args.schedule))
    found: dict[str, Any] = {
        "schedule": args.schedule,
        "sound": not faults,
        "faults": [{"reason": str(f.reason), "seq": f.seq, "message": f.message} for f in faults],
    }
    lines = [f"row {f.seq}: {f.reason}: {f.message}" for f in faults] or [f"sound: {len(schedule)} actions checked"]
    if args.against and not faults:
        found["against"], more = _against(args, schedule)
        lines += ["", *more]
    elif args.against:
        lines.append("not performed on the real allocator, because it is not sound")
    print(json.dumps(found, indent=1) if args.json else "\n".join(lines))
    return 1 if faults or not found.get("against", {}).get("agrees", True) else 0


def _against(args: argparse.Namespace, schedule: Any) -> tuple[dict[str, Any], list[str]]:
    from coopsim.study.oracle.against import compare, smallest_card
    from coopsim.trace.requests_of import of_schedule

    requests = of_schedule(schedule)
    real = real_allocator(args.against)
    if schedule.header["allocator"] != "cuda-caching":
        settings = _SETTINGS if args.alloc_conf is None else (args.alloc_conf,)
        return _cards([smallest_card(requests, real, conf) for conf in settings], schedule.header["budget_bytes"])
    h = schedule.header
    if args.alloc_conf is not None:
        raise CoopsimError(f"--alloc-conf: the schedule has its own settings, {h['alloc_conf'] or 'none'}")
    if real.version != h["torch"]:
        note(f"note: the schedule is of torch {h['torch']}, so that {real.version} may do otherwise")
    found = compare(requests, real, h["alloc_conf"], h["budget_bytes"])
    return _performed(found, schedule, requests)


def _performed(c: Any, schedule: Any, requests: Any) -> tuple[dict[str, Any], list[str]]:
    """Return report and lines for a schedule that was made for this allocator, on a card of the budget's size."""
    from coopsim.study.oracle.against import QUANTITIES
    from coopsim.trace.request_rows import ALLOCATE, KIND

    takes = requests.rows[:, KIND] == ALLOCATE
    planned = (schedule.address[requests.source[takes]] < 0).nonzero()[0].tolist()
    as_planned = c.agrees and list(c.refused) == planned
    rows = [(what, *c.statistics[key]) for key, what in QUANTITIES.items()]
    unallocated = [1 - c.statistics["alloc.peak"][k] / c.statistics["reserved.peak"][k] for k in (0, 1)]
    rows.append(("reserved but unallocated at the peaks", *(f"{x:.2%}" for x in unallocated)))
    rows.append(("answers equal", c.requests, c.equal))
    if c.foreseen is not None:
        rows.append(("of them foreseen, segments placed by rule", c.requests, c.foreseen))
    title = f"on a card of {human(c.total_bytes)}, settings {c.conf or 'none'}:"
    report = {"agrees": as_planned, "torch": c.torch, "conf": c.conf, "card_bytes": c.total_bytes}
    report |= {"requests": c.requests, "equal": c.equal, "foreseen": c.foreseen, "first_refused": c.first_refused}
    report |= {key: {"simulated": a, "real": b} for key, (a, b) in c.statistics.items()}
    verdict = "everything happens as predicted" if as_planned else "the real allocator does otherwise"
    return report, [title, table(("", "simulated", f"torch {c.torch}"), rows), verdict]


def _cards(cards: list[Any], budget: int) -> tuple[dict[str, Any], list[str]]:
    """Return report and lines for a schedule that was made for an arena: the smallest card on which it is served."""
    rows, report = [], []
    for s in cards:
        over = s.total_bytes / budget - 1
        real = "served; refused 2 MiB below" if s.confirmed else "otherwise"
        rows.append((s.conf or "(none)", human(s.total_bytes), f"{over:+.2%}", real))
        report.append({"conf": s.conf, "card_bytes": s.total_bytes, "over_arena": over, "confirmed": s.confirmed})
    torch = cards[0].at.torch
    title = f"as an arena, one block, it takes {human(budget)}; request by request on PyTorch's allocator:"
    header = ("settings", "smallest card", "over the arena", f"torch {torch}")
    found = {"agrees": all(s.confirmed for s in cards), "torch": torch, "arena_bytes": budget, "cards": report}
    return found, [title, table(header, rows)]
