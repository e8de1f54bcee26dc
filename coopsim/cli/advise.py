"""coopsim advise F --memory B: why a program ran out of memory, and what would have prevented it."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import files
from coopsim.base.progress import note, progress
from coopsim.base.types import CoopsimError
from coopsim.cli.common import is_trace

if TYPE_CHECKING:
    from coopsim.fitting.advise.selfcheck import Agreement
    from coopsim.study.sweep.recompute import Recomputed


def run(args: argparse.Namespace) -> int:
    from coopsim.fitting.advise import advise
    from coopsim.fitting.advise.api import count

    found = _of_trace(args) if is_trace(args.file) else _of_snapshot(args)
    picture = _picture(args) if args.output else None
    from coopsim.simulate.kernel.jit import note_if_cold

    note_if_cold("the allocator")
    with progress("trials", count(found["torch"])) as tick:
        advice = advise(
            found["requests"],
            torch=found["torch"],
            conf=found["conf"],
            total_bytes=found["total"],
            snapshot=found["snapshot"],
            tick=tick,
        )
    policies = []
    if found["trace"]:
        policies = _recomputed(found["trace"], found["total"], fits=advice.as_recorded.fits, sizes=args.all)
    if picture:
        _draw(advice, args.file, picture)
    if args.json:
        print(json.dumps(_json(found, advice, policies), indent=1))
    else:
        from coopsim.cli.advice import text

        print(text(found, advice, policies, all_trials=args.all))
    return 0 if advice.recommended else 3


def _of_snapshot(args: argparse.Namespace) -> dict[str, Any]:
    from coopsim.fitting.advise.selfcheck import best, check
    from coopsim.trace.snapshot import read, require_history
    from coopsim.trace.snapshot.requests import device_bytes, of_snapshot

    snapshot = read(args.file, device=args.device)
    require_history(snapshot)
    had = device_bytes(snapshot)
    total = _memory(args) or had
    if total is None:
        raise CoopsimError(
            f"{args.file} never ran out of memory, so it does not say how much there was; give --memory or --gpu"
        )
    requests = of_snapshot(snapshot, total_bytes=had)
    if args.torch is not None:
        agreement = check(snapshot, requests, torch=_known(args.torch), total_bytes=had)
    else:
        agreement = best(snapshot, requests, total_bytes=had)
    return {
        "requests": requests,
        "torch": agreement.torch,
        "conf": snapshot.conf if args.alloc_conf is None else args.alloc_conf,
        "total": total,
        "check": agreement,
        "snapshot": snapshot,
        "trace": None,
        "gpu": args.gpu,
        "ends": any(event.action == "oom" for event in snapshot.events),
    }


def _of_trace(args: argparse.Namespace) -> dict[str, Any]:
    from coopsim.trace import load_trace
    from coopsim.trace.requests_of import of_trace

    trace = load_trace(args.file)
    if args.device is not None:
        raise CoopsimError("--device is for snapshots; a trace has one device")
    total = _memory(args)
    if total is None:
        raise CoopsimError("a trace does not say how much memory there is; give --memory or --gpu")
    recorded = str(trace.header.get("versions", {}).get("torch", "")).partition("+")[0] or None
    conf = trace.header.get("allocator", {}).get("conf", "") if args.alloc_conf is None else args.alloc_conf
    plan = trace if trace.header.get("dependencies") != "unknown" else None
    return {
        "requests": of_trace(trace, iterations=2),
        "torch": _known(recorded if args.torch is None else args.torch),
        "conf": conf,
        "total": total,
        "check": None,
        "snapshot": None,
        "trace": plan,
        "gpu": args.gpu,
        "ends": False,
    }


def _known(version: str | None) -> str:
    from coopsim.simulate.allocators.caching.version import NEWEST, find

    return NEWEST if version is None else find(version).name


def _memory(args: argparse.Namespace) -> int | None:
    """Return the bytes that PyTorch may reserve by --gpu or --memory; None if neither is given."""
    if args.gpu is not None:
        from coopsim.cards import profiles

        try:
            card = profiles.get(args.gpu)
        except CoopsimError as e:  # advise takes one of the two options
            raise CoopsimError(f"{e}; here --memory alone will do: what PyTorch may reserve") from None
        return card.memory_bytes - card.context.training_bytes
    if args.memory is None:
        return None
    from coopsim.base import budget

    return budget.parse(args.memory, None, "--memory")


def _recomputed(trace: Any, total: int, *, fits: bool, sizes: bool) -> list["Recomputed"]:
    """Replay with recomputation in an arena of `total` bytes.

    The smallest sizes that fit are searched for with `sizes`, or if neither the recorded run nor the best policy fits.
    """
    from coopsim.study.sweep.recompute import POLICIES, recompute, search_sizes

    with progress("policies", len(POLICIES)) as tick:
        rows = recompute(trace, total, tick)
    if sizes or not (fits or rows[0].outcome == "ok"):
        with progress("from which size on", len(rows)) as tick:
            rows = search_sizes(trace, rows, tick)
    return rows


def _picture(args: argparse.Namespace) -> Path:
    """Return the file to draw, in the folder of --output, which is made, if that is one; checked before the work."""
    from coopsim.study.figures.output import check_formats

    path = Path(args.output)
    check_formats([path.suffix or "png"])
    if not path.suffix:
        path.mkdir(parents=True, exist_ok=True)
        path /= f"memory_{Path(args.file).stem}.png"
    return files.target(path)


def _draw(advice: Any, file: str, path: Path) -> None:
    from coopsim.cli.advice import title
    from coopsim.fitting.advise import segments
    from coopsim.study.figures import output

    heading = f"{Path(file).name}: {title(advice.failure)}"
    note(f"wrote {output.save(segments.draw(advice.failure, title=heading), path)}")


def _json(found: dict[str, Any], advice: Any, policies: list["Recomputed"]) -> dict[str, Any]:
    f, check = advice.failure, found["check"]
    state = {k: v for k, v in vars(f).items() if k not in ("segments", "labels", "pinned", "growth")}
    return {
        "memory_bytes": advice.total_bytes,
        "gpu": found["gpu"],
        "floor_bytes": f.floor_bytes,
        "torch": found["torch"],
        "conf": advice.as_recorded.conf,
        "written_by": None if check is None else vars(check.written_by),
        "self_check": None if check is None else _checked(check),
        "verdict": advice.verdict,
        "fits": advice.as_recorded.fits,
        "cause": f.cause,
        "growth": f.growth and vars(f.growth),
        "state": state
        | {
            "reserved_bytes": f.reserved_bytes,
            "pinned": [vars(p) for p in f.pinned[:20]],
            "streams": [vars(s) for s in f.streams],
        },
        "as_recorded": advice.as_recorded.row(),
        "trials": [t.row() for t in advice.trials],
        "versions": [t.row() for t in advice.versions],
        "recommended": None if advice.recommended is None else advice.recommended.conf,
        "smallest_bytes": advice.smallest_bytes[0],
        "smallest_bytes_recommended": advice.smallest_bytes[1],
        "smallest_bytes_expandable": advice.smallest_expandable_bytes,
        "more_bytes": advice.more_bytes,
        "history_ends_at_failure": found["ends"],
        "policies": [_row(p) for p in policies],
    }


def _checked(check: "Agreement") -> dict[str, Any]:
    return {k: v for k, v in vars(check).items() if k != "written_by"} | {"whole": check.whole}


def _row(p: "Recomputed") -> dict[str, Any]:
    size = p.fits_from
    return {
        "policy": p.policy,
        "steps": p.steps,
        "outcome": p.outcome,
        "overhead": p.overhead,
        "searched": p.searched,
        "from_bytes": size and size.nbytes,
        "from_budget": size and size.budget,
    }
