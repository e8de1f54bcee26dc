"""Judges plans by their steps, and says which one follows where steps do not do well. Knows no torch.

Plans leave given shares of the budget, each more than the one before: the first by which steps are steady stays. A
margin is this share in bytes. Nothing is changed here: a judgement, or a schedule, is returned. What else is set before
steps run, PyTorch's allocator, is here, too.
"""

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from coopsim.live.plan import Plan
from coopsim.live.schedules import CHEAP, Search
from coopsim.live.signatures import Candidate, Chosen, Failure, Followed
from coopsim.trace.schedule import Schedule

#: Free memory is joined by remapping pages, so that fragments add up.
_SETTING = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
_SET_BY = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def allocator_variables() -> tuple[tuple[str, str], ...]:
    """The environment variables to set for PyTorch's allocator, as (name, value); () if the environment has some."""
    return () if any(name in os.environ for name in _SET_BY) else (_SETTING,)


@dataclass(frozen=True)
class PlanningParameters:
    """Parameters of `Planning`. A *margin* is the part of the budget, in bytes, that a plan leaves unused.

    The project's history records no sweep of any of them.
    """

    rungs: tuple[float, ...] = (0.02, 0.03, 0.04, 0.08, 0.16, 0.32)
    """Shares of the budget that plans on a GPU leave for what the caching allocator cannot use, one after the other,
    until steps are steady; after steps that were not, the next leaves twice as much at least. U-Net's in half its
    memory exceed the budget by 0.1 % where they leave 2 % of it, and cost 2 points more by 8 % than by 3. Without
    expandable segments, blocks of 8 MiB leave a fifth of each segment of 20 MiB: only the largest margin is enough."""

    arena_rungs: tuple[float, ...] = (0.0, 0.0025, 0.0075, 0.0175, 0.0375, 0.0775, 0.1575)
    """The same in an arena, until all requests of a plan have addresses."""

    validating_steps: int = 3
    """Successive steps that keep to the budget before a plan is validated: what the allocator has free, and where,
    differs from step to step. 1: the first step validates it."""

    warm_up_steps: int = 3
    """Steps by a new plan that may take memory from the device or give it back while the caching allocator's segments
    take their shape; by the next that does, in steps of one signature that follow each other, it is replanned.
    `sys.maxsize`: never."""

    giving_up_steps: int = 3
    """Successive steps that run out of memory by the last plan that is left, before steps go on without one."""

    retry_ns: float = 4.1e6
    """What a step loses that gives back the allocator's cache once: the driver's time on the host, for 39 pages to
    unmap and 40 to map, on an H100 in GPT-2 at half its memory. A plan that costs more than that is not adopted. 0.0:
    it is replanned for that only where it costs nothing."""

    page_bytes: int = 20 << 20
    """On a GPU, of an expandable segment: plans that exceed the budget by as many count as equally close to it."""

    def margins(self, limit: int) -> list[int]:
        """Margins in a budget in bytes, the least first."""
        return [int(limit * rung) for rung in self.rungs]

    def arena_margins(self, limit: int, least: int = 0) -> list[int]:
        """The same in an arena, of at least so many bytes."""
        return [margin for rung in self.arena_rungs if (margin := int(limit * rung)) >= least]


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


class Judgement(Enum):
    """How a step did by a plan."""

    KEPT = "it kept to the budget and was steady"
    ALLOCATED = "it kept to the budget, and called the device; segments may still take their shape, or the plan stays"
    UNSTEADY = "it kept to the budget, and after so many steps it should have been steady"
    EXCEEDED = "it took more than the budget, or ran out of memory"


def judge(state: Followed, took: StepTook, limit: int, warm_up: int, *, once: bool) -> Judgement:
    """Judge a step by the plan of a signature in this state.

    limit: the budget in bytes. warm_up: steps by a new plan that need not be steady. Those that call the device from
    then on without giving back the allocator's cache count as steady: the calls are the program's own. once: no other
    step has this signature, so that it does not matter whether it is steady.
    """
    if took.ran_out or took.nbytes > limit:
        return Judgement.EXCEEDED
    warm = state.allocating >= warm_up
    if once or not (took.retries or (took.calls and not warm)):
        return Judgement.KEPT
    return Judgement.UNSTEADY if warm and not state.stays else Judgement.ALLOCATED


def climb(tried: tuple[Failure, ...], search: Search, p: PlanningParameters) -> Candidate | None:
    """The schedule that follows the latest of those that steps did not do well by; None if no other is left.

    It leaves what that lacked, or twice as much where nobody knows how much it was, or more if that costs less; if no
    schedule is cheap enough, less, but more than that. Where steps kept to the budget, and were only not steady, it
    costs no more than what they lose by giving back the allocator's cache.
    """
    latest = tried[-1]
    own, excess = latest.candidate.margin, latest.excess
    margins = [margin for margin in p.margins(search.limit) if margin > own]
    wanted = own + excess if excess else 2 * own
    enough = [margin for margin in margins if margin >= wanted] or margins[-1:]
    fewer = [margin for margin in reversed(margins) if margin < enough[0]] if enough else []
    kept = (_cost(failed, search, p) for failed in tried if not (failed.ran_out or failed.excess))
    most = math.inf if latest.ran_out or excess else min(kept)
    best: Candidate | None = None
    for margin in (*enough, *fewer):
        if best is not None and (best.cost <= CHEAP or margin in fewer):
            break
        found = search.leaving(margin).candidate
        known = found is not None and any(_same(found.schedule, failed.candidate.schedule) for failed in tried)
        if found is not None and not known and found.cost <= most and (best is None or found.cost < best.cost):
            best = found
    return best


def last(tried: tuple[Failure, ...], search: Search, p: PlanningParameters) -> Candidate:
    """The schedule that stays where no other is left: by which steps kept to the budget and cost least with retries.

    If they kept to it by none, that of those that exceeded it least, by as many pages; if steps ran out of memory by
    all, the one that leaves most.
    """
    if all(failed.ran_out for failed in tried):
        return max((failed.candidate for failed in tried), key=lambda candidate: candidate.margin)
    page = p.page_bytes if search.ops else 1
    fit = (failed for failed in tried if not failed.ran_out)
    return min(fit, key=lambda failed: (-(-failed.excess // page), _cost(failed, search, p))).candidate


def _cost(failed: Failure, search: Search, p: PlanningParameters) -> float:
    """What steps cost by a plan with what they lose by retries, as a multiple of a step without recomputation."""
    return failed.candidate.cost + failed.retries * p.retry_ns / max(int(search.trace.cost_ns.sum()), 1)


def placed(
    margins: Iterable[int], choose: Callable[[int], Chosen | str], needed: Callable[[Plan], int], limit: int
) -> Chosen | str:
    """The first plan whose requests all have addresses below `limit`, of those that leave these margins, in an arena.

    Failing that, the one that needs least; or why there is none. choose: a plan with a margin, or why there is none.
    needed: the height at which all of its requests have addresses.
    """
    best: Chosen | str = "nothing is left of the budget"
    least = math.inf
    for margin in margins:
        chosen = choose(margin)
        if isinstance(chosen, str):
            return chosen if isinstance(best, str) else best
        if (height := needed(chosen[1])) < least:
            least, best = height, chosen
        if height <= limit:
            break
    return best


def _same(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules have the same actions in the same order, wherever the bytes lie."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("action", "op", "storage", "version"))
