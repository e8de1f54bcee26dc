"""Plans for the step signatures of a session: made for the budget, and replanned where steps took more than it.

A *margin* is a number of bytes that a plan leaves of the budget. Steps that dispatch the same ops on the same sizes
have one signature (signatures.py), whose `state` has its plan.
"""

from collections.abc import Sequence
from dataclasses import replace

from coopsim.live import ladder
from coopsim.live.arena.placed import Placed, PlacedPlans
from coopsim.live.errors import DoesNotFit
from coopsim.live.host import Offloading, step_time
from coopsim.live.ladder import Judgement, PlanningParameters, StepTook
from coopsim.live.make import Background, at_start
from coopsim.live.plan import Plan
from coopsim.live.schedules import Found, Search
from coopsim.live.signatures import (
    Candidate,
    Chosen,
    Failure,
    Followed,
    Last,
    NoPlan,
    OnTrial,
    PlanState,
    Signature,
    Valid,
)
from coopsim.simulate.policies import Policy


class Planning:
    """Makes and replans plans, by a policy, for step signatures in one budget, and moves their states on.

    limit: the budget in bytes; None while it is not known. placed: assigns addresses in an arena to what plans request;
    None where PyTorch's own allocator serves them.
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
        self.offloading = Offloading()
        self.on_gpu = False
        self.others = 0  #: bytes that the allocator has given to others than the program's storages
        self.varies = False  #: whether steps leave their plans, which then keep the call of every op
        self.replans = 0  #: plans that were replanned, over all signatures
        self.background = background  #: makes first plans while steps go on demand
        self._in_arena = PlacedPlans(placed, self._choose, self._parameters) if placed is not None else None
        self._steady_margin = 0  # of the latest plan whose steps were steady, of whatever signature

    # -- what plans are for ------------------------------------------------------------------------------------------

    def run_on(self, device_type: str) -> None:
        """Plan for steps on this type of device, "cuda" or "cpu", from now on."""
        self.on_gpu = device_type == "cuda"
        self.offloading.run_on(device_type)

    def leave_arena(self) -> None:
        """Plan for PyTorch's own allocator, as the arena serves no memory of the program."""
        self.placed = self._in_arena = None

    def count_others(self, nbytes: int) -> None:
        """Let later plans leave room for bytes that the allocator has given to others than the program's storages."""
        self.others = nbytes
        if self.placed is not None:
            self.placed.count_others(nbytes)

    def rebudget(self, limit: int, signatures: Sequence[Signature]) -> None:
        """Plan for another budget in bytes, these signatures anew."""
        if limit != self.limit:
            self.limit = limit
            for signature in signatures:
                self._try(signature, self._first(signature))

    def expect_other_steps(self, signatures: Sequence[Signature]) -> None:
        """Let plans keep all that a step needs that leaves its plan, as one has done. signatures: to plan so, too."""
        if not self.varies:
            self.varies = True
            for signature in signatures:
                if isinstance(state := signature.state, Followed):
                    self._move(signature, replace(state, plan=self._plan(signature, state.candidate)))

    # -- plans for signatures ------------------------------------------------------------------------------------------

    def learn(self, signature: Signature, *, now: bool = False) -> None:
        """Make the first plan of a step signature, for its `state`; if none is found, `why` there says why.

        That of a program's first step is kept for another start. With a `background`, that makes it, unless `now`, and
        `take` finds it later. On the CPU, raises DoesNotFit if one of its ops needs more than the budget.
        """
        background = None if now else self.usable_background
        if background is not None:
            background.ask(signature, self._search(signature))
            if not signature.first:
                self._move(signature, NoPlan("its plan is still being made"))
            return
        search = self._search(signature)
        if signature.first:
            in_arena = self._in_arena is not None
            found = at_start(signature.op_log, search, self._parameters) if in_arena else search.first()
            self._move(signature, NoPlan(signature.state.why, found.candidate))
        elif why := search.too_much():
            self._move(signature, NoPlan(why))
            self._refuse(why)
        else:
            self._try(signature, self._first(signature))

    def follow_known(self, signature: Signature) -> None:
        """Follow the schedule that a signature comes with."""
        state = signature.state
        if not isinstance(state, NoPlan) or state.candidate is None:
            return
        self._try(signature, self._with_plan(signature, state.candidate), stays=state.stays)

    def take(self) -> None:
        """Adopt the plans that the background has made since; what it could not make is planned here and now."""
        for signature, search, found in self.background.answers() if self.background is not None else ():
            if isinstance(signature.state, Followed):
                continue
            if signature.first:
                self._move(signature, NoPlan(signature.state.why, found.candidate if found is not None else None))
            elif found is None or search.limit != self.limit:
                self.learn(signature)
            else:
                self._try(signature, self._chosen(signature, found))
                if found.too_much:
                    self._refuse(found.why)

    def _refuse(self, why: str) -> None:
        """Raise DoesNotFit, as one op needs more than the budget; but not on a GPU, whose steps may use the host."""
        if not self.on_gpu:
            raise DoesNotFit(why)

    def is_asked(self, signature: Signature) -> bool:
        """Whether the background is still making a plan for a signature."""
        return self.background is not None and self.background.is_asked(signature)

    @property
    def usable_background(self) -> Background | None:
        """The background; None if that makes no plans."""
        named = isinstance(self.policy, str) and self._in_arena is None
        return self.background if named and self.background is not None and self.background.alive else None

    def _search(self, signature: Signature) -> Search:
        """For a schedule; the first one of a signature leaves no less than one by which steps of another are steady."""
        assert self.limit is not None
        margin = max(self._parameters.margins(self.limit)[0], self._steady_margin) if self.on_gpu else 0
        ops = len(signature.op_log) * self.on_gpu
        return Search(
            signature.trace, self.policy, self.limit, self.others, self.offloading.hosting, ops=ops, margin=margin
        )

    def _first(self, signature: Signature) -> Chosen | str:
        """The first plan of a signature; or why there is none."""
        if self._in_arena is not None:
            return self._in_arena.first(signature, self.limit or 0)
        return self._chosen(signature, self._search(signature).first())

    def _try(self, signature: Signature, chosen: Chosen | str, *, stays: bool = False) -> None:
        if isinstance(chosen, str):
            self._move(signature, NoPlan(chosen))
        else:
            self._move(signature, (Last if stays else OnTrial)(*chosen))

    def _choose(self, signature: Signature, margin: int) -> Chosen | str:
        """A schedule that leaves this margin, with its plan; or why there is none."""
        return self._chosen(signature, self._search(signature).leaving(margin))

    def _chosen(self, signature: Signature, found: Found) -> Chosen | str:
        return found.why if found.candidate is None else self._with_plan(signature, found.candidate)

    def _with_plan(self, signature: Signature, candidate: Candidate) -> Chosen | str:
        """A schedule with its plan. If the host has no room for its copies, another without copies; or why none.

        No later plan has copies then.
        """
        plan = self._plan(signature, candidate)
        return (candidate, plan) if self.offloading.reserve(plan) else self._choose(signature, candidate.margin)

    def _plan(self, signature: Signature, candidate: Candidate) -> Plan:
        """The plan by which steps follow a schedule.

        It keeps every call if steps leave their plans, for which another may be there. It watches every storage if a
        step takes more than half of the budget, so that one that leaves its plan can send what is there to the host.
        """
        needed, limit = signature.peak_bytes + self.others, self.limit or 0
        storages, evict = self.varies or 2 * needed > limit, needed + candidate.margin > limit
        trace, schedule, op_log = signature.trace, candidate.schedule, signature.op_log
        time = step_time(trace, schedule, len(op_log) * self.on_gpu)
        return Plan(trace, schedule, op_log, storages=storages, calls=self.varies, evict=evict, time=time)

    def _move(self, signature: Signature, state: PlanState) -> None:
        if state.plan is not None and state.plan is not signature.plan:
            self.offloading.adopt(state.plan)
        signature.move_on(state)

    # -- what steps show ---------------------------------------------------------------------------------------------

    def validate(self, signature: Signature, took: StepTook) -> None:
        """Judge the signature's plan by a step that followed it.

        It is validated once enough steps kept to the budget, and another takes its place if one did not, or if steps of
        this signature go on to give back the allocator's cache, whichever steps come between.
        """
        assert self.limit is not None
        state, p = signature.state, self._parameters
        if not isinstance(state, Followed):  # its plan was dropped as the step ended
            return
        judgement = ladder.judge(state, took, self.limit, p.warm_up_steps, once=signature.first)
        if judgement is Judgement.KEPT:
            self._keep(signature, state.keep(p.validating_steps), self.limit)
        elif state.stays and judgement is Judgement.ALLOCATED:
            self._keep(signature, state.allocate(took.retries), self.limit)
        elif state.stays and state.tried and took.nbytes > self.limit:
            self._replan(signature, state, took, self.limit)
        elif state.stays and took.ran_out and state.ran_out + 1 >= p.giving_up_steps:
            self._move(signature, NoPlan("steps run out of memory by every plan", state.candidate, stays=True))
        elif state.stays or judgement is Judgement.ALLOCATED:
            self._move(signature, state.allocate(took.retries, ran_out=took.ran_out))
        elif self._in_arena is not None:
            self._change(signature, state, self._in_arena.after_excess(signature, state, took, self.limit))
        else:
            self._replan(signature, state, took, self.limit)

    def _keep(self, signature: Signature, state: OnTrial | Valid | Last, limit: int) -> None:
        """Go on to this state, validated if enough steps have kept to the budget; or, in an arena, to a better plan."""
        if self._in_arena is not None and not signature.first:
            better = self._in_arena.look_ahead(signature, state, limit)
            if better is not None:
                self.replans += 1
                self._move(signature, Last(*better) if state.stays else OnTrial(*better))
                return
        enough = 1 if signature.first else self._parameters.validating_steps
        if state.kept >= self._parameters.validating_steps:
            self._steady_margin = state.margin
        shown = state.kept + state.allocating * state.stays  # steps show no more of a plan that stays
        if not state.validated and shown >= enough:
            state = state.validate()
        self._move(signature, state)

    def _replan(self, signature: Signature, state: OnTrial | Valid | Last, took: StepTook, limit: int) -> None:
        """Go on to a plan that leaves more, after steps did not do well; or, for good, to the best of those tried.

        If that kept to the budget, it stays for as long as steps do: those that were left out as too expensive follow.
        """
        excess = max(took.nbytes - limit, 0)
        retries = (state.retries + took.retries) / (state.allocating + 1)
        tried = (*state.tried, Failure(state.candidate, took.ran_out, excess, retries))
        search = self._search(signature)
        candidate = ladder.climb(tried, search, self._parameters)
        self.replans += candidate is not None
        chosen = self._with_plan(signature, candidate or ladder.last(tried, search, self._parameters))
        if isinstance(chosen, str):
            self._move(signature, NoPlan(chosen))
        elif candidate is not None:
            self._move(signature, OnTrial(*chosen, tried))
        else:
            self._move(signature, Last(*chosen, () if took.ran_out or excess else tried))

    def _change(self, signature: Signature, state: OnTrial | Valid | Last, chosen: Chosen | None) -> None:
        """Go on to another plan in the arena; None: there is none, and steps go on by this one."""
        self.replans += chosen is not None
        self._move(signature, OnTrial(*chosen) if chosen is not None else state.finish())
