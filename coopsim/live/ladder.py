"""Which plan follows where steps do not do well by theirs. Knows no torch.

A *margin* is a number of bytes that a plan leaves of the budget. Plans on a GPU leave given shares of it, each more
than the one before: the first by which steps are steady stays. Nothing is changed here: a schedule is returned. The
project's history records no sweep of any of these parameters.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coopsim.base import alloc_conf
from coopsim.live.schedules import CHEAP, Search
from coopsim.live.signatures import Candidate, Failure
from coopsim.trace.schedule import Schedule

#: Shares of the budget that plans leave for what the caching allocator cannot use, one after the other, until steps are
#: steady; after steps that were not, the next leaves twice as much at least. U-Net's in half its memory exceed the
#: budget by 0.1 % where they leave 2 % of it, and cost 2 points more by 8 % than by 3. Without expandable segments,
#: blocks of 8 MiB leave a fifth of each segment of 20 MiB: only the largest margin is enough.
RUNGS = (0.02, 0.03, 0.04, 0.08, 0.16, 0.32)

#: The same in an arena, until all requests of a plan have addresses.
ARENA_RUNGS = (0.0, 0.0025, 0.0075, 0.0175, 0.0375, 0.0775, 0.1575)

#: What a step loses that gives back the allocator's cache once: the driver's time on the host, for 39 pages to unmap
#: and 40 to map, on an H100 in GPT-2 at half its memory. A plan that costs more than that is not adopted.
RETRY_NS = 4.1e6


def margins(limit: int) -> list[int]:
    """Margins in a budget in bytes, the least first."""
    return [int(limit * rung) for rung in RUNGS]


def arena_margins(limit: int, least: int = 0) -> list[int]:
    """The same in an arena, of at least so many bytes."""
    return [margin for rung in ARENA_RUNGS if (margin := int(limit * rung)) >= least]


@dataclass(frozen=True)
class StepTook:
    """What a step by a plan took of the device.

    nbytes: at most. ran_out: it ran out of memory. calls: how often it took memory from the device or gave it back.
    retries: how often it gave back the allocator's cache to go on.
    """

    nbytes: int
    ran_out: bool = False
    calls: int = 0
    retries: int = 0


def climb(tried: tuple[Failure, ...], search: Search) -> Candidate | None:
    """The schedule that follows the latest of those that steps did not do well by; None if no other is left.

    It leaves what that lacked, or twice as much where nobody knows how much it was, or more if that costs less; if no
    schedule is cheap enough, less, but more than that. Where steps kept to the budget, and were only not steady, it
    costs no more than what they lose by giving back the allocator's cache.
    """
    latest = tried[-1]
    own, excess = latest.candidate.margin, latest.excess
    more = [margin for margin in margins(search.limit) if margin > own]
    wanted = own + excess if excess else 2 * own
    enough = [margin for margin in more if margin >= wanted] or more[-1:]
    fewer = [margin for margin in reversed(more) if margin < enough[0]]
    kept = (_cost(failed, search) for failed in tried if not (failed.ran_out or failed.excess))
    most = math.inf if latest.ran_out or excess else min(kept)
    best: Candidate | None = None
    for margin in (*enough, *fewer):
        if best is not None and (best.cost <= CHEAP or margin in fewer):
            break
        found = search.leaving(margin)
        if isinstance(found, str) or any(_same(found.schedule, failed.candidate.schedule) for failed in tried):
            continue
        if found.cost <= most and (best is None or found.cost < best.cost):
            best = found
    return best


def last(tried: tuple[Failure, ...], search: Search) -> Candidate:
    """The schedule that stays where no other is left: by which steps kept to the budget and cost least with retries.

    If they kept to it by none, that of those that exceeded it least, by as many pages; if steps ran out of memory by
    all, the one that leaves most.
    """
    if all(failed.ran_out for failed in tried):
        return max((failed.candidate for failed in tried), key=lambda candidate: candidate.margin)
    page = alloc_conf.PAGE if search.ops else 1
    fit = (failed for failed in tried if not failed.ran_out)
    return min(fit, key=lambda failed: (-(-failed.excess // page), _cost(failed, search))).candidate


def _cost(failed: Failure, search: Search) -> float:
    """What steps cost by a plan with what they lose by retries, as a multiple of a step without recomputation."""
    return failed.candidate.cost + failed.retries * RETRY_NS / max(int(search.trace.cost_ns.sum()), 1)


def placed(search: Search, needed: Callable[[Candidate], int], least: int = 0) -> Candidate | str:
    """The first schedule, of those that leave `arena_margins`, whose requests all have addresses within the budget.

    Failing that, the one that needs least; or why there is none. needed: the size of the arena that a schedule needs.
    """
    best: Candidate | str = "nothing is left of the budget"
    size = math.inf
    for margin in arena_margins(search.limit, least):
        found = search.leaving(margin)
        if isinstance(found, str):
            return found if isinstance(best, str) else best
        if (own := needed(found)) < size:
            best, size = found, own
        if own <= search.limit:
            break
    return best


def _same(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules have the same actions in the same order, wherever the bytes lie."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("action", "op", "storage", "version"))
