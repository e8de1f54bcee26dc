"""Plans for the kinds of step of a session: made for the budget, and mended where steps took more than it.

In this module a *margin* is a number of bytes that a plan leaves of the budget. Steps that dispatch the same ops on the
same sizes are of one kind (kinds.py), whose `state` has its plan. To mend a plan is to put one in its place that takes
less.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coopsim.live import schedules
from coopsim.live.arena.placed import Placed
from coopsim.live.errors import DoesNotFit
from coopsim.live.host import hosting
from coopsim.live.host.area import HostArea
from coopsim.live.host.hosting import Hosting, bounds
from coopsim.live.host_time import step_time
from coopsim.live.kinds import Kind
from coopsim.live.make import PLACINGS, more_to_leave
from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan import AWAY, Plan
from coopsim.live.plan_state import Candidate, Failure
from coopsim.policies import Policy
from coopsim.schedule import Schedule
from coopsim.text import human


class Planning:
    """Makes and mends plans, by a policy, for kinds of step in one budget.

    limit: the budget in bytes; None while it is not known. placed: assigns addresses in an arena to what plans request;
    None where PyTorch's own allocator serves them.
    """

    def __init__(
        self,
        policy: Policy | str,
        limit: int | None,
        placed: Placed | None,
        parameters: PlanningParameters | None = None,
    ) -> None:
        self.policy, self.limit, self.placed = policy, limit, placed
        self._parameters = parameters or PlanningParameters()
        self.hosting: Hosting | None = None  #: None: nothing is offloaded
        self.in_parts = False  #: whether optimizers update their tensors in parts (parts.py) in all steps
        self.lists_in_parts = False  #: whether a step without a plan had to; from then on all such steps do
        self.area = HostArea("cpu")
        self.no_offload = ""  #: why the latest plan does not offload, although plans may
        self.on_gpu = False
        self.others = 0  #: bytes that the allocator has given to others than the program's storages
        self.varies = False  #: whether steps leave their plans, which then keep the call of every op
        self.replans = 0  #: plans that were mended, over all kinds
        self._latest: Kind | None = None  # of the latest step that followed a plan

    def let_offload(self, offload: Hosting | None, no_offload: str, *, in_parts: bool = False) -> None:
        """Let plans offload, unless no_offload says why not. CoopsimError if the policy makes no plans.

        in_parts: optimizers update their tensors in parts (parts.py) in all steps.
        """
        if offload is not None:
            hosting.check(self.policy)
        self.hosting, self.no_offload = None if no_offload else offload, no_offload
        self.in_parts = in_parts

    def run_on(self, device_kind: str) -> None:
        """Plan for steps on this kind of device, "cuda" or "cpu", from now on."""
        self.on_gpu = device_kind == "cuda"
        self.area = HostArea(device_kind)

    def leave_arena(self) -> None:
        """Plan for PyTorch's own allocator, as steps do not run on the arena's device."""
        self.placed = None

    def set_limit(self, nbytes: int) -> None:
        """Plan for this budget from now on."""
        self.limit = nbytes

    def set_others(self, nbytes: int) -> None:
        """Leave so many bytes of the budget to what is not of the program's storages."""
        self.others = nbytes

    def no_room_for_lists(self) -> None:
        """Let optimizers update their tensors in parts in steps without a plan, as one has had no room for more."""
        self.lists_in_parts = True

    def expect_other_steps(self, kinds: Sequence[Kind]) -> None:
        """Let plans keep all that a step may need that leaves its plan, as one has done so. kinds: to plan so, too."""
        if not self.varies:
            self.varies = True
            for kind in kinds:
                self.follow(kind)

    def keep_steps_apart(self) -> None:
        """Let no plan have values on the host between steps."""
        if self.hosting is not None:
            self.hosting = replace(self.hosting, between=False)

    @property
    def sends(self) -> int:
        """The bytes that steps without a plan may have on the host: none, unless state may go."""
        if self.hosting is None or not self.hosting.state:
            return 0
        return sys.maxsize if self.hosting.memory_bytes is None else self.hosting.memory_bytes

    def learn(self, kind: Kind) -> None:
        """Make the first plan of a kind of step, kept in its `state`, with the reason (`why`) if none is found.

        Raises DoesNotFit if one of its ops needs more than the budget, which must be known.
        """
        assert self.limit is not None
        least = schedules.least(kind.trace, **bounds(self.hosting))
        if least.nbytes + self.others > self.limit:
            raise DoesNotFit(schedules.too_much(least, self.others, self.limit))
        if self.placed is not None:
            self._plan_in_place(kind, self.placed)
            return
        divisor = self._parameters.first_margin_divisor if self.on_gpu else 0
        found = self._leaving(kind, self.limit // divisor) if divisor else []
        if found:
            self._adopt(kind, min(found, key=_cost))
        else:
            self.plan(kind)

    def plan(self, kind: Kind) -> None:
        """Plan a kind of step anew with the margin that its state has; if no plan is found, `why` there says why."""
        assert self.limit is not None
        state, budget = kind.state, self.limit - self.others
        state.clear()
        if budget <= state.margin:
            state.refuse("nothing is left of the budget")
            return
        schedule = schedules.find(kind.trace, self.policy, budget - state.margin, self.hosting)
        if state.margin and schedules.explain(schedule):
            schedule = schedules.padded(kind.trace, self.policy, budget, state.margin, self.hosting) or schedule
        why = schedules.explain(schedule)
        if why:
            state.refuse(why)
        else:
            self._adopt(kind, Candidate(state.margin, schedule))

    def _adopt(self, kind: Kind, candidate: Candidate) -> None:
        kind.state.adopt(candidate)
        self.follow(kind)

    def follow_known(self, kind: Kind) -> None:
        """Follow the schedule that a kind comes with, or make another where that has values on the host between steps.

        Raises DoesNotFit as `learn` does.
        """
        between = self.hosting is not None and self.hosting.between
        if kind.state.schedule is not None and kind.state.schedule.header.get(AWAY) and not between:
            self.learn(kind)
        else:
            self.follow(kind)

    def follow(self, kind: Kind) -> None:
        """Make the plan that steps follow from the schedule in the kind's `state`; without a schedule, make none.

        Until it is proven, a step on a GPU may run out of memory and leave it, so it keeps the call of every op.
        """
        if self.placed is not None:
            self.placed.others = self.others
        state = kind.state
        if state.schedule is not None:
            needed, limit = kind.peak_bytes + self.others, self.limit or 0
            fills = self._parameters.keep_calls_factor * needed > limit
            everything = self.varies or (not state.proven and self.on_gpu) or fills
            evict = needed + state.margin > limit
            plan = Plan(kind.trace, state.schedule, kind.tape, everything=everything, evict=evict, finds=kind.finds)
            plan.time = step_time(kind.trace, kind.tape, state.schedule, on_gpu=self.on_gpu)
            if plan.host_bytes and (why := self._cannot_offload(plan.host_bytes)):
                self._recompute_only(kind, why)
                return
            if self.hosting is not None:
                recomputes = plan.time.planned_gpu > plan.time.plain_gpu
                dearer = "recomputing alone is predicted to cost no more" if recomputes else "nothing is evicted"
                self.no_offload = "" if plan.host_bytes else dearer
            state.follow(plan)

    def _cannot_offload(self, nbytes: int) -> str:
        """Why copies that take so much of the host cannot be made; "" if they can."""
        if self.hosting is None:
            return self.no_offload
        most = self.hosting.memory_bytes
        if most is not None and nbytes > most:
            return f"the copies take {human(nbytes)} as they lie on the host, of {human(most)}"
        return self.area.reserve(nbytes)

    def _recompute_only(self, kind: Kind, why: str) -> None:
        """Plan a kind of step, and all later ones, without copies, for this reason."""
        self.hosting, self.no_offload = None, why
        if self.placed is not None:
            self._plan_in_place(kind, self.placed)
        else:
            self.plan(kind)

    def prove(self, kind: Kind, taken: int, *, ran_out: bool, calls: int = 0, retries: int = 0) -> None:
        """Judge the kind's plan by a step that followed it, and mend the plan if the step exceeded the budget.

        It is mended, too, if steps of this kind, one after the other, go on to give back the allocator's cache. taken:
        bytes that the step took at most. ran_out: whether it ran out of memory. calls: how often it took memory from
        the device or gave it back. retries: how often it gave back the allocator's cache to go on.
        """
        assert self.limit is not None
        state, p = kind.state, self._parameters
        excess = taken - self.limit
        after_another, self._latest = kind is not self._latest, kind
        if excess <= 0 and not ran_out:
            judged = not (kind.first or after_another or state.finished or state.proven)
            if judged and (retries or (calls and state.allocating < p.warm_up_steps)):
                state.allocate()
                if state.allocating > p.warm_up_steps:
                    self._mend_unsteady(kind, retries)
                return
            if self.placed is not None and not (kind.first or state.looked_ahead):
                state.looked_ahead = True
                if self._replaced(kind, self.placed):
                    return  # the new plan is on trial
            state.keep()
            if not state.proven and (kind.first or state.kept == p.proving_steps):
                state.prove()
                self.follow(kind)
        elif not state.finished and state.repairs <= p.max_repairs:
            state.repairs += 1
            least = int(p.least_margin * self.limit)
            if self.placed is not None:
                excess = excess if kind.first else 0  # of a block beside the arena: what lacked was a hole for it
                self._place_with_margin(kind, max(excess, 2 * state.margin, least), self.placed)
            elif state.schedule is not None:
                state.fail(excess, ran_out=ran_out)
                growth = p.margin_growth_once if kind.first or ran_out else p.margin_growth
                more = growth * max(failure.candidate.margin for failure in state.failures)
                self._mend(kind, [max(state.margin + excess, int(more), least)])

    def _mend_unsteady(self, kind: Kind, retries: int) -> None:
        """Adopt a schedule that leaves more, if that costs less than what the steps take from the device and give back.

        If there is none, the kind goes back to the cheapest of those that kept to the budget, and is mended no more.
        """
        assert self.limit is not None
        state, p = kind.state, self._parameters
        state.repairs += 1
        state.fail(0, retries=retries)
        least = max(int(p.margin_growth_once * state.margin), int(p.least_margin * self.limit))
        margins = [(least + state.margin * k) // (1 + k) for k in (0, 1, 3)]  # nearer ones, if the first costs too much
        margins += [int(least * p.margin_growth_once**k) for k in (1, 2)]  # larger ones, where they make no other plan
        most = min(self._with_retries(kind, one) for one in state.failures if not (one.ran_out or one.excess))
        self._mend(kind, margins, most)

    def _with_retries(self, kind: Kind, failure: Failure) -> float:
        """The cost of a schedule that failed, with what its steps lose by giving back the allocator's cache."""
        lost = failure.retries * self._parameters.retry_ns / max(int(kind.trace.cost_ns.sum()), 1)
        return _cost(failure.candidate) + lost

    def _mend(self, kind: Kind, margins: Sequence[int], most: float = math.inf) -> None:
        """Adopt the cheapest schedule not tried yet, of those found before and of those that leave the first margin.

        Where none costs at most `most`, the next margin counts. If it is so for all, or the kind was mended too often,
        go back to the cheapest of those that exceeded least.
        """
        state, p = kind.state, self._parameters
        goes_on = state.repairs <= p.max_repairs
        tried = [failure.candidate.schedule for failure in state.failures]
        for margin in margins if goes_on else ():
            known = [*state.candidates, *self._leaving(kind, margin)]
            state.candidates = [other for other in known if not any(_same(other.schedule, one) for one in tried)]
            if any(_cost(other) <= most for other in state.candidates):
                break
        best = min(state.candidates, key=_cost, default=None)
        if goes_on and best is not None and _cost(best) <= most:
            self.replans += 1
            self._adopt(kind, best)
            return
        ran_out, excess = min((failure.ran_out, failure.excess) for failure in state.failures)
        excess += p.equal_excess_bytes if self.on_gpu and excess > 0 else 0
        nearest = [f.candidate for f in state.failures if f.ran_out == ran_out and f.excess <= excess]
        state.finish()
        self._adopt(kind, min(nearest, key=_cost))

    def _leaving(self, kind: Kind, margin: int) -> list[Candidate]:
        """Schedules that leave `margin` bytes of the budget: none, one or two.

        One leaves them at every op. If that is expensive, another leaves them only where ops can. Where neither exists,
        smaller margins are tried that are still larger than the kind's own.
        """
        assert self.limit is not None
        state, room = kind.state, self.limit - self.others
        margins = [margin]
        while len(margins) < self._parameters.margins_tried:
            margins.append((state.margin + margins[-1]) // 2)
        found: list[Candidate] = []
        for each in margins:
            if each < (room if state.infeasible_margin is None else state.infeasible_margin):
                schedule = schedules.find(kind.trace, self.policy, room - each, self.hosting)
                if not schedules.explain(schedule):
                    found.append(Candidate(each, schedule))
                    break
                state.infeasible_margin = each
        if found and found[0].margin == margin and found[0].cost <= schedules.CHEAP:
            return found
        for each in margins:
            padded = schedules.padded(kind.trace, self.policy, room, each, self.hosting)
            if padded is not None and not schedules.explain(padded):
                return [*found, Candidate(each, padded)]
        return found

    def _place_with_margin(self, kind: Kind, margin: int, placed: Placed) -> None:
        """Plan in the arena with this margin; if that has no plan, with margins nearer to the present one.

        If none of them has a plan, the kind goes back to the present one, which is mended no more.
        """
        state, before = kind.state, kind.state.candidate
        for _ in range(self._parameters.margins_tried):
            state.margin = margin
            self._plan_in_place(kind, placed)
            if state.schedule is not None:
                self.replans += 1
                return
            margin = (before.margin + margin) // 2
        state.restore(before)
        self.follow(kind)

    def _replaced(self, kind: Kind, placed: Placed) -> bool:
        """Replace a plan whose next steps find no places in the arena, as memory lies now. True if it was replaced.

        The plan stays if its next steps do find places, or if no other plan's would.
        """
        assert self.limit is not None
        state = kind.state
        assert state.plan is not None
        if placed.next(state.plan).needed <= self.limit:
            return False
        before = state.candidate
        self._plan_in_place(kind, placed)
        if state.plan is not None and placed.next(state.plan).needed <= self.limit:
            self.replans += 1
            return True
        self._adopt(kind, before)
        return False

    def _plan_in_place(self, kind: Kind, placed: Placed) -> None:
        """Plan so that all requests have places within the budget; failing that, with the least height of all tried."""
        assert self.limit is not None
        state = kind.state
        best: tuple[int, Candidate] | None = None
        for k in range(PLACINGS):
            self.plan(kind)
            if state.plan is None or state.schedule is None:
                break
            places = placed.next(state.plan)
            if best is None or places.needed < best[0]:
                best = places.needed, state.candidate
            if places.needed <= self.limit:
                return
            state.margin += more_to_leave(places, self.limit, k)
        if best is not None:
            self._adopt(kind, best[1])


def _cost(candidate: Candidate) -> float:
    return candidate.cost


def _same(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules have the same actions in the same order, wherever the bytes lie."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("action", "op", "storage", "version"))
