"""Derive remedies from a memory snapshot or a trace, in the form of `coopsim fit`, without running the script."""

from collections.abc import Sequence

from coopsim.base.types import MIB
from coopsim.fitting.advise import Advice
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedies import live, settings
from coopsim.fitting.remedy import Remedy
from coopsim.study.sweep.recompute import Recomputed


def find(advice: Advice, policies: Sequence[Recomputed], context_bytes: int) -> list[Remedy]:
    """Return at most two remedies: a setting that serves the recorded requests, a budget in which the step trains.

    [] if it fits as recorded, or if neither was found. `policies`: the results of replays of a trace. `context_bytes`:
    the memory of the card's context. Peaks are those of the allocator, or the budget, plus the context; times are
    simulated.
    """
    if advice.as_recorded.fits:
        return []
    found = []
    if (best := advice.recommended) is not None:
        line = settings.line(best.conf)
        peak = context_bytes + best.peak_reserved_bytes
        found.append(Remedy("settings", best.conf, (line,), peak, 1.0, True, False, Changes(), ()))
    within = [p for p in policies if p.outcome == "ok" and p.overhead is not None]
    if within:
        least = min(within, key=lambda p: p.overhead or 0.0)
        memory = f"{advice.total_bytes // MIB}MiB"
        line = f"coopsim live run --memory {memory} --policy {least.policy} -- python train.py"
        peak, cost = context_bytes + advice.total_bytes, least.overhead or 1.0
        found.append(Remedy("live", live.text(memory), (line,), peak, cost, True, False, Changes(live=memory), ()))
    return found
