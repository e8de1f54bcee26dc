"""Plans for the step signatures of a session: made for the budget, and replanned where steps took more than it.

A *margin* is a number of bytes that a plan leaves of the budget. Steps that dispatch the same ops on the same sizes
have one signature (signatures.py), whose `state` has its plan. To replan is to put another in its place.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from coopsim.live import replanning
from coopsim.live.arena.placed import Placed
from coopsim.live.arena.plans import PlacedPlans
from coopsim.live.background import Background
from coopsim.live.errors import DoesNotFit
from coopsim.live.host import hosting
from coopsim.live.host.area import HostArea
from coopsim.live.host.hosting import Hosting
from coopsim.live.host_time import step_time
from coopsim.live.make import make
from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan import ON_HOST, Plan
from coopsim.live.plan_file import Planned
from coopsim.live.plan_state import Candidate
from coopsim.live.search import FirstPlan, Found, Search
from coopsim.live.signatures import Signature
from coopsim.policies import Policy
from coopsim.text import human


class Planning:
    """Makes and replans plans, by a policy, for step signatures in one budget.

    limit: the budget in bytes; None while it is not known. placed: assigns addresses in an arena to what plans request;
    None where PyTorch's own allocator serves them. Both may be set, and `others`; plans that exist stay as they are.
    """

    def __init__(
        self,
        policy: Policy | str,
        limit: int | None,
        placed: Placed | None,
        parameters: PlanningParameters | None = None,
        background: Background | None = None,
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
        self.replans = 0  #: plans that were replanned, over all signatures
        self.background = background  #: makes first plans while steps go on demand
        self._steady_margin = 0  # of the latest plan with steady steps
        self.first: Signature | None = None  #: the first step, if it is prepared for another start

    def let_offload(self, offload: Hosting | None, no_offload: str, *, in_parts: bool = False) -> None:
        """Let plans offload, unless no_offload says why not. CoopsimError if the policy makes no plans.

        in_parts: optimizers update their tensors in parts (parts.py) in all steps.
        """
        if offload is not None:
            hosting.check(self.policy)
        self.hosting, self.no_offload = None if no_offload else offload, no_offload
        self.in_parts = in_parts

    def run_on(self, device_type: str) -> None:
        """Plan for steps on this type of device, "cuda" or "cpu", from now on."""
        self.on_gpu = device_type == "cuda"
        self.area = HostArea(device_type)

    def expect_other_steps(self, signatures: Sequence[Signature]) -> None:
        """Let plans keep all that a step needs that leaves its plan, as one has done. signatures: to plan so, too."""
        if not self.varies:
            self.varies = True
            for signature in signatures:
                self.follow(signature)

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

    def learn(self, signature: Signature) -> None:
        """Make the first plan of a step signature, kept in its `state`, with the reason (`why`) if none is found.

        With a `background`, that makes it, and `take` finds it later. Raises DoesNotFit if one of its ops needs more
        than the budget, which must be known.
        """
        if self.placed is not None:
            if why := self._search(signature).too_much():
                raise DoesNotFit(why)
            self._in_place(self.placed).make(signature, self.limit or 0)
        elif self._asks is not None:
            self._ask(signature, self._asks)
        else:
            self._begin(signature, self._search(signature).first(self._first_margin))

    def _begin(self, signature: Signature, found: Found) -> None:
        if found.candidate is None:
            signature.state.refuse(found.why)
            if found.too_much:
                raise DoesNotFit(found.why)
            return
        self._adopt(signature, found.candidate)
        signature.state.found([], found.infeasible_margin)

    def _ask(self, signature: Signature, background: Background) -> None:
        signature.state.refuse("its plan is still being made")
        background.ask(signature, FirstPlan(self._search(signature), self._first_margin))

    def take(self) -> None:
        """Adopt the plans that the background has made since; what it could not make is planned here and now."""
        for signature, asked, found in self.background.answers() if self.background is not None else ():
            if signature is self.first:
                self._keep(signature, found)
            elif signature.state.schedule is not None:  # priced anew, or planned here as the budget has changed
                if asked.search.limit == self.limit and asked.search.trace is signature.trace:
                    self._improve(signature, found)
            elif found is not None and asked.search.limit == self.limit:
                self._begin(signature, found)
            else:
                self.learn(signature)

    def reprice(self, signature: Signature, read: Mapping[int, int], card: str) -> None:
        """Price a step signature by times of its ops on a card, in ns; replan if that gains a point (in no arena)."""
        replanning.reprice(signature, read, card)
        self.follow(signature)
        question = FirstPlan(self._search(signature), signature.state.margin)
        if self._asks is not None:
            self._asks.ask(signature, question)
        elif self.placed is None:
            self._improve(signature, question.run())

    def _improve(self, signature: Signature, found: Found | None) -> None:
        if found is not None and (better := replanning.better(signature, found.candidate)) is not None:
            self._adopt(signature, better)

    def is_asked(self, signature: Signature) -> bool:
        """Whether the background is still making a plan for a signature."""
        return self.background is not None and self.background.is_asked(signature)

    def prepare(self, signature: Signature, *, now: bool) -> None:
        """Find a schedule for the first step, which was recorded, to be kept for another start of the program.

        now: even if the background could find it.
        """
        self.first = signature
        if not now:
            if self._asks:
                self._ask(signature, self._asks)
        elif self.placed is None:
            self._keep(signature, self._search(signature).first(self._first_margin))
        elif self.limit is not None:
            planned = Planned(signature.trace, cast("Any", signature.op_log), signature.decided, first=True)
            how: dict[str, Any] = {"search": False, "arena": True, "hosting": self.hosting}
            made = make(planned, cast("str", self.policy), self.limit, self.others, **how).signature
            if made.schedule is not None:
                signature.state.store(Candidate(made.margin, made.schedule))

    def _keep(self, signature: Signature, found: Found | None) -> None:
        if found is not None and found.candidate is not None:
            signature.state.store(found.candidate)

    @property
    def _asks(self) -> Background | None:
        """What plans in the background; None if plans are made here."""
        background = self.background if isinstance(self.policy, str) and self.placed is None else None
        return background if background is not None and background.alive else None

    def plan(self, signature: Signature) -> None:
        """Plan a step signature anew with the margin that its state has; if no plan is found, `why` there says why."""
        signature.state.clear()
        self._begin(signature, self._search(signature).keeping(signature.state.margin))

    def _search(self, signature: Signature) -> Search:
        assert self.limit is not None
        how = self.hosting, self._parameters.margins_tried, len(signature.op_log) * self.on_gpu
        return Search(signature.trace, self.policy, self.limit, self.others, *how)

    def _in_place(self, placed: Placed) -> PlacedPlans:
        return PlacedPlans(placed, self.plan, self.follow)

    @property
    def _first_margin(self) -> int:
        """What the first plan of a signature leaves, in bytes: as much as the plan of others with steady steps."""
        divisor = self._parameters.first_margin_divisor
        return max((self.limit or 0) // divisor, self._steady_margin) if divisor and self.on_gpu else 0

    def _adopt(self, signature: Signature, candidate: Candidate) -> None:
        signature.state.adopt(candidate)
        self.follow(signature)

    def follow_known(self, signature: Signature) -> None:
        """Follow the schedule that a signature comes with; or another where that has values on the host between steps.

        Raises DoesNotFit as `learn` does.
        """
        between = self.hosting is not None and self.hosting.between
        if signature.state.schedule is not None and signature.state.schedule.header.get(ON_HOST) and not between:
            self.learn(signature)
        else:
            self.follow(signature)

    def follow(self, signature: Signature) -> None:
        """Make the plan that steps follow from the schedule in the signature's `state`; without a schedule, make none.

        Until it is validated, a step on a GPU may run out of memory and leave it, so it keeps the call of every op.
        """
        if self.placed is not None:
            self.placed.others = self.others
        state = signature.state
        if state.schedule is not None:
            needed, limit = signature.peak_bytes + self.others, self.limit or 0
            fills = self._parameters.keep_calls_factor * needed > limit
            everything = self.varies or (not state.validated and self.on_gpu) or fills
            evict = needed + state.margin > limit
            how: dict[str, Any] = {"everything": everything, "evict": evict, "finds": signature.finds}
            time = step_time(signature.trace, state.schedule, len(signature.op_log) * self.on_gpu)
            plan = Plan(signature.trace, state.schedule, signature.op_log, time=time, **how)
            if plan.host_bytes and (why := self._cannot_offload(plan.host_bytes)):
                self._recompute_only(signature, why)
                return
            if self.hosting is not None:
                recomputes = time.planned_gpu > time.plain_gpu
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

    def _recompute_only(self, signature: Signature, why: str) -> None:
        """Plan a step signature, and all later ones, without copies, for this reason."""
        self.hosting, self.no_offload = None, why
        if self.placed is None or self.limit is None:
            self.plan(signature)
        else:
            self._in_place(self.placed).make(signature, self.limit)

    def validate(self, signature: Signature, taken: int, *, ran_out: bool, calls: int = 0, retries: int = 0) -> None:
        """Judge the signature's plan by a step that followed it, and replan the plan if the step exceeded the budget.

        It is replanned, too, if steps of this signature go on to give back the allocator's cache, whichever steps come
        between. taken: bytes that the step took at most. ran_out: whether it ran out of memory. calls: how often it
        took memory from the device or gave it back. retries: how often it gave back the allocator's cache to go on.
        """
        assert self.limit is not None
        state, p, search = signature.state, self._parameters, self._search(signature)
        excess = taken - self.limit
        if excess <= 0 and not ran_out:
            calling = not signature.first and (retries or (calls and state.allocating < p.warm_up_steps))
            if calling:
                state.allocate()
            if calling and not state.finished:
                if state.allocating > p.warm_up_steps:
                    self.replans += replanning.unsteady(state, search, p, retries, self._steady_margin)
                    self.follow(signature)
                return
            placed = None if signature.first else self.placed
            if placed is not None and state.looks_ahead() and self._in_place(placed).look_ahead(signature, self.limit):
                self.replans += 1
                return  # the new plan is on trial
            if not calling and state.keep(p.validating_steps):
                self._steady_margin = state.margin
            seen = state.kept + state.allocating * state.finished
            if not state.validated and (signature.first or seen >= p.validating_steps):
                state.validate()
                self.follow(signature)
        elif state.finished or state.repairs > p.max_repairs:
            state.allocate()
        else:
            state.repair()
            if self.placed is not None:
                excess = excess if signature.first else 0  # of a block beside the arena: what lacked was a hole for it
                margin = max(excess, 2 * state.margin, int(p.least_margin * self.limit))
                self.replans += self._in_place(self.placed).make_leaving(signature, margin, self.limit, p.margins_tried)
            elif state.schedule is not None:
                margins = replanning.exceeding(state, search, p, excess, ran_out=ran_out, once=signature.first)
                equal = p.equal_excess_bytes * self.on_gpu
                self.replans += replanning.replan(state, search, p, margins, equal_excess=equal)
                self.follow(signature)
