"""Print advice: why memory ran out, what was tried, what would help."""

from typing import TYPE_CHECKING, Any

from coopsim.base.alloc_conf import EXPANDABLE
from coopsim.base.text import human, listed, overhead, table
from coopsim.base.types import MIB

if TYPE_CHECKING:
    from coopsim.fitting.advise.failure import Failure
    from coopsim.study.sweep.recompute import Recomputed

_SHOWN = 8  #: how many of the best trials are shown
_GROW = ("input", "activation", "temporary")  #: roles whose bytes grow with the batch
_FITS_FROM = """\
fits from: the smallest budget, in percent of the peak, with which it fits and with all larger ones that were
tried (every 0.5 %, at the edge 0.05 %). One between them may fail, and smaller ones may fit: see coopsim map"""
_WHY = {
    "growth": "growth: a loop keeps memory from iteration to iteration (a leak, unless all of it is needed)",
    "size": "size: more is needed at once than there is, whatever the allocator does",
    "fragmentation": "fragmentation: there is room, but in blocks that live tensors keep apart",
    "other-streams": "other streams: the room is in segments of other streams, which keep what they once had",
    "pending": "other streams still use what was freed (record_stream)",
    "rounding": "rounding: blocks are larger than what was asked for",
    "other-pool": "the room is in segments for requests of another size (small ones are at most 1 MiB) or private pool",
}


def text(found: dict[str, Any], advice: Any, policies: list["Recomputed"], *, all_trials: bool) -> str:
    """Return the advice as text. all_trials: list every setting that was tried."""
    parts = [
        _verdict(advice, live=_by_live(found, advice, policies), ends=found["ends"]),
        "",
        listed(_state(found, advice)),
        "",
        _trials(advice, all_trials=all_trials),
    ]
    if policies and all(p.outcome == "ok" and p.overhead == 1.0 and not p.searched for p in policies):
        parts += ["", "recomputation: not needed; in one arena of that size no policy recomputes anything"]
    elif policies:
        parts += ["", f"recomputation, all memory in one arena of that size, over {_steps(policies[0].steps)}:"]
        parts.append(_policies(policies))
    if advice.recommended is None:
        return "\n".join([*parts, "", "What would help:", listed(_help(found, advice, policies))])
    return "\n".join([*parts, "", _conclusion(advice, ends=found["ends"])])


def title(f: "Failure") -> str:
    """Return the title of a picture of memory at a failure, or at a peak: what was requested, and why it failed."""
    if not f.failed:
        return f"{human(f.reserved_bytes)} reserved, at the peak"
    lies = {
        "growth": f"{human(f.growth.nbytes if f.growth else 0)} are kept by earlier iterations of a loop",
        "size": "more than there is",
        "fragmentation": f"{human(f.free_bytes)} are free, no block is larger than {human(f.largest_free_block_bytes)}",
        "other-streams": f"{human(f.other_streams_bytes)} are free, but for other streams",
        "pending": f"{human(f.pending_bytes)} are freed, but another stream still uses them",
        "rounding": f"{human(f.rounding_bytes)} are lost to rounding",
        "other-pool": f"{human(f.other_pool_bytes)} are free, but in the other pool",
    }
    return (
        f"no room for {human(f.requested_bytes)} in {human(f.unused_device_bytes + f.reserved_bytes)}: {lies[f.cause]}"
    )


def _verdict(advice: Any, *, live: str, ends: bool) -> str:
    """Return the first line. ends: whether the history ends with the request that failed. live: see `_by_live`."""
    has, (least, with_it) = human(advice.total_bytes), advice.smallest_bytes
    fits = "Gets past the request that failed" if ends else "Fits"
    if advice.verdict == "fits":
        return f"{fits}: needs {human(least)}, has {has}"
    if advice.verdict == "fits with other settings":
        return f"{fits} with other settings: needs {human(with_it)} with them, {human(least)} as recorded, has {has}"
    if ends:
        return f"Does not fit: has {has}, and needs at least {human(advice.more_bytes)} more to pass this request"
    needs = f"Does not fit: needs {human(advice.total_bytes + advice.more_bytes)}, has {has}"
    return f"{needs}; `coopsim live run` would train in that" if live else needs


def _by_live(found: dict[str, Any], advice: Any, policies: list["Recomputed"]) -> str:
    """Return the command that trains in this memory, with the policy of least overhead.

    "" if no policy fits, and for a rank of several, which live does not take.
    """
    fits = [p for p in policies if p.outcome == "ok" and p.overhead is not None]
    if not fits or found["trace"].has_collectives:
        return ""
    least = min(fits, key=lambda p: p.overhead or 0.0)
    return f"coopsim live run --memory {advice.total_bytes // MIB}MiB --policy {least.policy} -- python train.py"


def _state(found: dict[str, Any], advice: Any) -> list[tuple[str, str]]:
    f, first = advice.failure, advice.as_recorded
    of = "PyTorch's allocator"
    if found["gpu"]:
        from coopsim.cards import profiles

        card = profiles.get(found["gpu"])
        of += f" ({card.title}: {human(card.memory_bytes)} less {human(card.context.training_bytes)} of context)"
    lines = [
        ("memory", f"{human(advice.total_bytes)} for {of}; {human(f.floor_bytes)} needed at once"),
        ("torch", f"{found['torch']}, settings {first.conf or 'none'}"),
    ]
    if found["check"]:
        lines[-1] = ("torch", f"{found['check'].written_by.text()}; simulated: {lines[-1][1]}")
        lines.append(("", found["check"].text()))
    state = [
        f"{human(f.live_bytes)} live",
        f"{human(f.rounding_bytes)} rounding and unsplit remainders",
        f"{human(f.free_bytes)} free in blocks of at most {human(f.largest_free_block_bytes)}",
        f"{human(f.other_streams_bytes)} free for other streams",
        f"{human(f.other_pool_bytes)} free in the other pool",
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
    if len(f.streams) > 1:
        lines.append(("by stream", _by_stream(f)))
    if f.growth:
        lines.append(("grows", f"{human(f.growth.nbytes)}: {f.growth.text()}"))
    if f.cause in ("size", "growth"):
        return lines
    return lines + [
        ("in the way", f"{human(p.free_bytes)} of {human(p.nbytes)} free, held by {', '.join(p.holders)}")
        for p in f.pinned[:3]
    ]


def _by_stream(f: "Failure") -> str:
    """Return a line on memory by stream: free memory of one serves no other, and FSDP uses several streams."""
    most, *others = f.streams
    rows = [
        ("one", most.reserved_bytes, most.free_bytes, most.pending_bytes),
        (
            f"{len(others)} other{'s' * (len(others) > 1)}",
            sum(of.reserved_bytes for of in others),
            sum(of.free_bytes for of in others),
            sum(of.pending_bytes for of in others),
        ),
    ]
    said = []
    for name, reserved, free, pending in rows:
        waits = f", {human(pending)} freed but in use elsewhere (record_stream)" if pending else ""
        said.append(f"{name}: {human(reserved)} reserved, {human(free)} free{waits}")
    return f"{'; '.join(said)}; what is free of a stream serves that stream only"


def _trials(advice: Any, *, all_trials: bool) -> str:
    """Return the table of trials; versions of PyTorch with equal results share a row."""
    tried = f"{len(advice.trials) + 1} settings and {len(advice.versions)} versions of PyTorch tried"
    if advice.recommended is None and not all_trials:
        rows = [(advice.as_recorded.conf or "(none)", human(advice.smallest_bytes[0]))]
        if advice.smallest_expandable_bytes is not None and advice.as_recorded.conf != EXPANDABLE:
            rows.append((EXPANDABLE, human(advice.smallest_expandable_bytes)))
        return f"{tried}, none fits (--all shows them)\n\n{table(('settings', 'would fit in'), rows)}"
    trials = advice.trials if all_trials else advice.trials[:_SHOWN]
    plain = [t for t in advice.trials if t.conf == EXPANDABLE]  # always shown, as users ask about it
    shown: dict[tuple[object, ...], list[str]] = {}
    rows_of = dict.fromkeys((*advice.versions, *trials, *plain))
    for t in rows_of:
        figures = (human(t.peak_reserved_bytes), t.device_calls, t.retries) if t.fits else ("-", "-", "-")
        key = (t.conf or "(none)", "fits" if t.fits else "out of memory", *figures)
        shown.setdefault(key, []).append(t.torch)
    known = [t.torch for t in advice.versions]
    header = ("settings", "torch", "outcome", "peak reserved", "device calls", "retries")
    lines = table(header, [(key[0], _spans(versions, known), *key[1:]) for key, versions in shown.items()])
    hidden = len(set(advice.trials) - set(rows_of))
    return f"{lines}\n{tried}; --all shows the other {hidden}" if hidden else lines


def _spans(versions: list[str], known: list[str]) -> str:
    """Return versions as text, consecutive ones as `first to last`."""
    spans: list[list[str]] = []
    for version in versions:
        if spans and known.index(version) == known.index(spans[-1][-1]) + 1:
            spans[-1].append(version)
        else:
            spans.append([version])
    return ", ".join(span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans)


def _policies(policies: list["Recomputed"]) -> str:
    searched = policies[0].searched
    rows = []
    for p in policies:
        row = [p.policy, p.outcome, "-" if p.overhead is None else overhead(p.overhead)]
        if searched:
            row += [p.fits_from.budget, human(p.fits_from.nbytes)] if p.fits_from else ["never fits", "-"]
        rows.append(row)
    header = ("policy", "outcome", "overhead", "fits from", "in memory")
    if not searched:
        return f"{table(header[:3], rows)}\n--all searches from which size on each fits"
    return f"{table(header, rows)}\n{_FITS_FROM}"


def _steps(n: int) -> str:
    return "one step" if n == 1 else f"{n} steps"


def _help(found: dict[str, Any], advice: Any, policies: list["Recomputed"]) -> list[tuple[str, str]]:
    """Return the rows on what else would help, if no settings do."""
    least, expandable = advice.smallest_bytes[0], advice.smallest_expandable_bytes
    settings = f", with {EXPANDABLE}" if expandable is not None and expandable < least else ""
    more = f"{human(advice.more_bytes)} more{settings}"
    if found["ends"]:
        lines = [
            ("more memory", f"at least {more}, to pass this request; the history does not say what comes after it")
        ]
    else:
        lines = [("more memory", more)]
    largest = "`coopsim phantom run --largest` finds the largest batch that trains"
    if found["trace"] is None:
        lines.append(("smaller batch", largest))
        lines.append(
            (
                "recomputation",
                "not tried: a snapshot does not say what could be recomputed. Record a trace (coopsim capture, or "
                "coopsim phantom run --trace), and advise tries it",
            )
        )
        return [*lines, *_fit(found)]
    from coopsim.trace.measure import bytes_at_peak

    held = bytes_at_peak(found["trace"])
    grow = sum(nbytes for role, nbytes in held.items() if role in _GROW)
    rest = sum(held.values()) - grow
    if rest >= advice.total_bytes:
        lines.append(("smaller batch", f"not enough: {human(rest)} at the peak do not depend on it"))
    else:
        lines.append(("smaller batch", f"{human(grow)} of the peak depend on it; {largest}"))
    best = policies[0]
    if best.outcome == "ok" and found["trace"].has_collectives:
        lines.append(("recomputation", "simulated above; live takes no jobs of several ranks, checkpointing does"))
    elif best.outcome == "ok":
        lines.append(("recomputation", f"{_by_live(found, advice, policies)}; simulated here"))
    else:
        sizes = [(p.fits_from, p.policy) for p in policies if p.fits_from]
        size, policy = min(sizes, default=(None, ""), key=lambda s: s[0].nbytes)
        at_all = f"from {human(size.nbytes)} on, with {policy}" if size else "under none of these policies"
        lines.append(("recomputation", at_all))
    return [*lines, *_fit(found)]


def _fit(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the row that points to `coopsim fit`."""
    command = f"`coopsim fit --gpu {found['gpu'] or 'CARD'} -- python train.py`"
    return [("the script", f"{command} says what all of it needs, and tries what to change of it, without a GPU")]


def _conclusion(advice: Any, *, ends: bool) -> str:
    best = advice.recommended
    least, with_it = advice.smallest_bytes
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
    return f"smallest memory {human(least)} as recorded, {human(with_it)} with {best.conf}{limits}"
