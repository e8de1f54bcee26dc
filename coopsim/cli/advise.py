"""coopsim advise F --memory B: why it ran out of memory, and what would have kept it from doing so."""

import argparse
import json
from pathlib import Path
from typing import Any

from coopsim.cli.common import is_trace, note, progress
from coopsim.text import human, table
from coopsim.types import CoopsimError

_POLICIES = ("coop", "dte-oneflow", "dtr-oneflow")
_SHOWN = 8
_WHY = {
    "size": "size: more is needed at once than there is, whatever the allocator does",
    "fragmentation": "fragmentation: there is room, but in pieces that live tensors keep apart",
    "other-streams": "other streams: the room is in segments of other streams, which keep what they once had",
    "pending": "other streams still use what was freed (record_stream)",
    "rounding": "rounding: blocks are larger than what was asked for",
    "other-pool": "the room is in segments for requests of another size (small ones are at most 1 MiB)",
}


def run(args: argparse.Namespace) -> int:
    from coopsim.advise import advise
    from coopsim.advise.api import count

    found = _of_trace(args) if is_trace(args.file) else _of_snapshot(args)
    if args.output:
        from coopsim.figures.output import check_formats

        check_formats([Path(args.output).suffix or "png"])
    from coopsim.kernel.jit import is_cold

    if is_cold():
        note("compiling the allocator: some seconds, once")
    with progress("trials", count(found["torch"])) as tick:
        advice = advise(
            found["stream"], torch=found["torch"], conf=found["conf"], total_bytes=found["total"], tick=tick
        )
    policies = _policies(found["trace"], found["total"]) if found["trace"] is not None else []
    if args.output:
        _draw(advice, args)
    if args.json:
        print(json.dumps(_json(found, advice, policies), indent=1))
    else:
        print(_text(found, advice, policies))
    return 0 if advice.recommended or any(p["outcome"] == "ok" for p in policies) else 3


def _of_snapshot(args: argparse.Namespace) -> dict[str, Any]:
    from coopsim.advise.selfcheck import best, check
    from coopsim.requests.of_snapshot import device_bytes, of_snapshot
    from coopsim.snapshot import read

    snapshot = read(args.file, device=args.device)
    had = device_bytes(snapshot)
    total = _memory(args) or had
    if total is None:
        raise CoopsimError(f"{args.file} never ran out of memory, so it does not say how much there was; give --memory")
    stream = of_snapshot(snapshot, total_bytes=had)
    if not len(stream):
        raise CoopsimError(
            f"{args.file} has no history of requests: call torch.cuda.memory._record_memory_history() first thing"
        )
    if args.torch:
        agreement = check(snapshot, stream, torch=_known(args.torch), total_bytes=had)
    else:
        agreement = best(snapshot, stream, total_bytes=had)
    return {
        "stream": stream,
        "torch": agreement.torch,
        "conf": snapshot.conf if args.conf is None else args.conf,
        "total": total,
        "check": agreement,
        "trace": None,
        "ends": any(event.action == "oom" for event in snapshot.events),
    }


def _of_trace(args: argparse.Namespace) -> dict[str, Any]:
    from coopsim.cli.common import load_trace
    from coopsim.requests import of_trace

    trace = load_trace(args.file)
    if args.device is not None:
        raise CoopsimError("--device is for snapshots; a trace has one device")
    total = _memory(args)
    if total is None:
        raise CoopsimError("a trace does not say how much memory there is; give --memory")
    version = args.torch or str(trace.header.get("versions", {}).get("torch", "")).partition("+")[0]
    conf = trace.header.get("allocator", {}).get("conf", "") if args.conf is None else args.conf
    plan = trace if trace.header.get("dependencies") != "unknown" else None
    return {
        "stream": of_trace(trace, rounds=2),
        "torch": _known(version or None),
        "conf": conf,
        "total": total,
        "check": None,
        "trace": plan,
        "ends": False,
    }


def _known(version: str | None) -> str:
    from coopsim.allocators.caching.version import NEWEST, find

    return find(version).name if version else NEWEST


def _memory(args: argparse.Namespace) -> int | None:
    from coopsim import budget

    if args.memory is None:
        return None
    if args.memory.strip().endswith("%"):
        raise CoopsimError(f"--memory {args.memory}: an amount, such as 80GiB")
    try:
        return budget.parse(args.memory, 0)
    except CoopsimError as e:
        raise CoopsimError(f"--memory: {e}") from None


def _policies(trace: Any, total: int) -> list[dict[str, Any]]:
    """Recomputation in an arena of the same size: the cheapest first."""
    from coopsim.replay.api import measure

    rows = []
    for policy in _POLICIES:
        found = measure(trace, policy, "arena", total, steps=2)
        rows.append({"policy": policy, "outcome": found["outcome"], "overhead": found["overhead"]})
    return sorted(rows, key=lambda r: (r["outcome"] != "ok", r["overhead"] or 0.0, r["policy"]))


def _draw(advice: Any, args: argparse.Namespace) -> None:
    from coopsim.figures import output, segments

    path = Path(args.output)
    if not path.suffix:
        path.mkdir(parents=True, exist_ok=True)
        path /= f"memory_{Path(args.file).stem}.png"
    f = advice.failure
    what = f"refused {human(f.requested_bytes)} of {human(f.unused_device_bytes + f.reserved_bytes)}"
    title = f"{Path(args.file).name}: {what if f.failed else 'at the peak of what was reserved'}"
    note(f"wrote {output.save(segments.draw(f, title=title), path)}")


def _text(found: dict[str, Any], advice: Any, policies: list[dict[str, Any]]) -> str:
    f, first = advice.failure, advice.as_recorded
    lines = [
        (
            "memory",
            f"{human(advice.total_bytes)} for PyTorch's allocator; {human(advice.failure.floor_bytes)} needed at once",
        ),
        ("torch", f"{found['torch']}, settings {first.conf or 'none'}"),
    ]
    if found["check"]:
        lines.append(("", found["check"].text()))
    state = [
        f"{human(f.live_bytes)} live",
        f"{human(f.rounding_bytes)} rounding and unsplit remainders",
        f"{human(f.free_bytes)} free in pieces of at most {human(f.largest_free_block_bytes)}",
        f"{human(f.other_streams_bytes)} free of other streams",
        f"{human(f.other_pool_bytes)} free of the other pool",
        f"{human(f.pending_bytes)} waiting for other streams",
        f"{human(f.unused_device_bytes)} in no segment",
    ]
    if f.failed:
        lines.append(("ran out", f"for {human(f.requested_bytes)} at {f.label}"))
        lines.append(("why", _WHY[f.cause]))
        lines.append(("then", ", ".join(part for part in state if not part.startswith("0 B"))))
    else:
        lines.append(("it fits", f"{human(first.peak_reserved_bytes)} reserved at the peak, {first.retries} retries"))
        lines.append(("at the peak", ", ".join(part for part in state if not part.startswith("0 B"))))
    lines += [
        ("in the way", f"{human(p.free_bytes)} of {human(p.nbytes)} free, held by {', '.join(p.holders)}")
        for p in f.pinned[:3]
    ]
    parts = [_columns(lines), "", _trials(advice)]
    if policies:
        rows = [(p["policy"], p["outcome"], "-" if p["outcome"] != "ok" else f"{p['overhead']:.3f}x") for p in policies]
        parts += [
            "",
            "recomputation, all memory in one arena of that size:",
            table(("policy", "outcome", "cost"), rows),
        ]
    return "\n".join([*parts, "", _conclusion(advice, policies, ends=found["ends"])])


def _trials(advice: Any) -> str:
    """The settings, and what came of them; versions of PyTorch between which nothing differs share a row."""
    shown: dict[tuple[object, ...], list[str]] = {}
    for t in dict.fromkeys((*advice.versions, *advice.trials[:_SHOWN])):
        outcome = "fits" if t.fits else "out of memory"
        key = (t.conf or "(none)", outcome, human(t.peak_reserved_bytes), t.device_calls, t.retries)
        shown.setdefault(key, []).append(t.torch)
    known = [t.torch for t in advice.versions]
    rows = [(key[0], _spans(versions, known), *key[1:]) for key, versions in shown.items()]
    return table(("settings", "torch", "outcome", "peak reserved", "device calls", "retries"), rows)


def _spans(versions: list[str], known: list[str]) -> str:
    """Versions, those in a row as `first to last`."""
    spans: list[list[str]] = []
    for version in versions:
        if spans and known.index(version) == known.index(spans[-1][-1]) + 1:
            spans[-1].append(version)
        else:
            spans.append([version])
    return ", ".join(span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans)


def _conclusion(advice: Any, policies: list[dict[str, Any]], *, ends: bool) -> str:
    best = advice.recommended
    least, with_it = advice.smallest_bytes
    if best is None:
        lines = [f"no settings make it fit; as recorded it fits in {human(least)}"]
        if policies and policies[0]["outcome"] == "ok":
            cost = policies[0]["overhead"]
            lines.append(f"recomputation does: {policies[0]['policy']}, at {cost:.3f} times the cost of a step")
        return "\n".join(lines)
    if best == advice.as_recorded:
        leaner = min(
            (t for t in advice.trials if t.fits and t.device_calls <= best.device_calls),
            key=lambda t: t.peak_reserved_bytes,
            default=best,
        )
        saved = best.peak_reserved_bytes - leaner.peak_reserved_bytes
        lines = [f"it fits as it is; the smallest memory is {human(least)}"]
        if saved * 50 > best.peak_reserved_bytes:
            lines.append(f"with {leaner.conf} it would reserve {human(saved)} less")
        return "\n".join(lines)
    limits = "\n\nfits: it gets past the request that failed; what would have come after is not in the history" * ends
    return (
        f"smallest memory {human(least)} as recorded, {human(with_it)} with the recommended settings:\n\n"
        f"    export PYTORCH_CUDA_ALLOC_CONF={best.conf}{limits}"
    )


def _columns(lines: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(f"{name:<{width}}{text}" for name, text in lines)


def _json(found: dict[str, Any], advice: Any, policies: list[dict[str, Any]]) -> dict[str, Any]:
    f, check = advice.failure, found["check"]
    state = {k: v for k, v in vars(f).items() if k not in ("segments", "labels", "pinned")}
    return {
        "memory_bytes": advice.total_bytes,
        "floor_bytes": f.floor_bytes,
        "torch": found["torch"],
        "conf": advice.as_recorded.conf,
        "self_check": None if check is None else vars(check) | {"whole": check.whole},
        "fits": advice.as_recorded.fits,
        "cause": f.cause,
        "state": state | {"reserved_bytes": f.reserved_bytes, "pinned": [vars(p) for p in f.pinned[:20]]},
        "as_recorded": advice.as_recorded.row(),
        "trials": [t.row() for t in advice.trials],
        "versions": [t.row() for t in advice.versions],
        "recommended": None if advice.recommended is None else advice.recommended.conf,
        "smallest_bytes": advice.smallest_bytes[0],
        "smallest_bytes_recommended": advice.smallest_bytes[1],
        "policies": policies,
    }
