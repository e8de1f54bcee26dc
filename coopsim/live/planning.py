"""Plans for the step signatures of a session: made for the budget, and replanned where steps took more than it.

A *margin* is a number of bytes that a plan leaves of the budget. Steps that dispatch the same ops on the same sizes
have one signature (signatures.py), whose `state` has its plan (plan_state.py).
"""

from collections.abc import Sequence

from coopsim.live import plan_state, replanning
from coopsim.live.arena.placed import Placed
from coopsim.live.arena.plans import Chosen, PlacedPlans
from coopsim.live.background import Background
from coopsim.live.errors import DoesNotFit
from coopsim.live.host.offloading import Offloading
from coopsim.live.host_time import step_time
from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan import Plan
from coopsim.live.replanning import Judgement, Next, StepTook
from coopsim.live.search import Found, Here, PlanMaker, Question, Search, Wanted
from coopsim.live.signatures import Signature
from coopsim.policies import Policy


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
        self._in_arena = PlacedPlans(placed, self._choose) if placed is not None else None
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
                self._move(signature, signature.state.drop())
                self._ask(signature, Wanted.ANEW, signature.state.margin, now=True)

    def expect_other_steps(self, signatures: Sequence[Signature]) -> None:
        """Let plans keep all that a step needs that leaves its plan, as one has done. signatures: to plan so, too."""
        if not self.varies:
            self.varies = True
            for signature in signatures:
                self._remake(signature)

    # -- plans for signatures ------------------------------------------------------------------------------------------

    def learn(self, signature: Signature) -> None:
        """Make the first plan of a step signature, for its `state`; if none is found, `why` there says why.

        With a `background`, that makes it, and `take` finds it later. Raises DoesNotFit if one of its ops needs more
        than the budget, which must be known.
        """
        self._ask(signature, Wanted.FIRST, self._first_margin)

    def prepare(self, signature: Signature, *, now: bool) -> None:
        """Find a schedule for the first step, which was recorded, to be kept for another start of the program.

        now: even if the background cannot find it.
        """
        if now or self._usable_background is not None:
            self._ask(signature, Wanted.STORED, self._first_margin, now=now)

    def follow_known(self, signature: Signature) -> None:
        """Follow the schedule that a signature comes with.

        Raises DoesNotFit as `learn` does.
        """
        state = signature.state
        if not isinstance(state, plan_state.Stored):
            return
        chosen = self._with_plan(signature, Found(state.candidate))
        self._move(signature, state.refuse(chosen) if isinstance(chosen, str) else state.follow(*chosen))

    def take(self) -> None:
        """Adopt the plans that the background has made since; what it could not make is planned here and now."""
        for signature, question, found in self.background.answers() if self.background is not None else ():
            planned = isinstance(signature.state, plan_state.Followed)  # meanwhile
            stored = question.wanted is Wanted.STORED
            outdated = not stored and question.search.limit != self.limit
            if found is None or outdated:
                if not (planned or stored):
                    self.learn(signature)
            elif not planned:
                self._answered(signature, question, found)

    def is_asked(self, signature: Signature) -> bool:
        """Whether the background is still making a plan for a signature."""
        return self.background is not None and self.background.is_asked(signature)

    # -- questions for plans, and answers ----------------------------------------------------------------------------

    def _ask(self, signature: Signature, wanted: Wanted, margin: int, *, now: bool = False) -> None:
        question = Question(wanted, self._search(signature), margin)
        found = self._maker(now=now).ask(signature, question)  # None: it is answered later
        if found is not None:
            self._answered(signature, question, found)
        elif wanted is Wanted.FIRST and isinstance(state := signature.state, plan_state.Unfollowed):
            self._move(signature, state.ask())

    @property
    def _first_margin(self) -> int:
        """What the first plan of a signature leaves, in bytes; at least what a steady plan of another leaves."""
        return self._parameters.first_margin(self.limit or 0, self._steady_margin) if self.on_gpu else 0

    def _maker(self, *, now: bool = False) -> PlanMaker:
        """What makes plans. now: at once."""
        return self._in_arena or (None if now else self._usable_background) or Here()

    @property
    def _usable_background(self) -> Background | None:
        """The background; None if that makes no plans."""
        named = isinstance(self.policy, str) and self._in_arena is None
        return self.background if named and self.background is not None and self.background.alive else None

    def _search(self, signature: Signature) -> Search:
        assert self.limit is not None
        tried, ops = self._parameters.margins_tried, len(signature.op_log) * self.on_gpu
        return Search(signature.trace, self.policy, self.limit, self.others, self.offloading.hosting, tried, ops)

    def _answered(self, signature: Signature, question: Question, found: Found) -> None:
        state = signature.state
        assert isinstance(state, plan_state.Unfollowed)
        if question.wanted is Wanted.STORED:
            if found.candidate is not None:
                self._move(signature, state.store(found.candidate))
            return
        chosen = self._with_plan(signature, found)
        if isinstance(chosen, str):
            self._move(signature, state.refuse(chosen))
        else:
            self._move(signature, state.try_out(*chosen, found.infeasible_margin))
        if found.too_much:
            raise DoesNotFit(found.why)

    def _choose(self, signature: Signature, margin: int) -> Chosen | str:
        """A schedule that leaves exactly this margin, with its plan; or why there is none."""
        return self._with_plan(signature, self._search(signature).leaving_exactly(margin))

    def _with_plan(self, signature: Signature, found: Found) -> Chosen | str:
        """What was found, with its plan; or why nothing was.

        If the host has no room for its copies, neither this plan nor any later one has some.
        """
        if found.candidate is None:
            return found.why
        plan = found.plan or self._plan(signature, found.candidate, validated=False)
        if found.plan is not None or self.offloading.reserve(plan):
            return found.candidate, plan
        question = Question(Wanted.ANEW, self._search(signature), found.candidate.margin)
        return self._with_plan(signature, self._maker(now=True).ask(signature, question) or Found(None))

    def _plan(self, signature: Signature, candidate: plan_state.Candidate, *, validated: bool) -> Plan:
        """The plan by which steps follow a schedule.

        Until it is validated, a step on a GPU may run out of memory and leave it, so it keeps the call of every op.
        """
        needed, limit = signature.peak_bytes + self.others, self.limit or 0
        fills = self._parameters.keep_calls_factor * needed > limit
        everything = self.varies or (not validated and self.on_gpu) or fills
        evict = needed + candidate.margin > limit
        trace, schedule, op_log = signature.trace, candidate.schedule, signature.op_log
        time = step_time(trace, schedule, len(op_log) * self.on_gpu)
        return Plan(trace, schedule, op_log, everything=everything, evict=evict, time=time)

    def _remake(self, signature: Signature) -> None:
        if isinstance(state := signature.state, plan_state.Followed):
            self._move(signature, state.remake(self._plan(signature, state.candidate, validated=state.validated)))

    def _move(self, signature: Signature, state: plan_state.PlanState) -> None:
        if state.plan is not None and state.plan is not signature.plan:
            self.offloading.adopt(state.plan)
        signature.move_on(state)

    # -- what steps show ---------------------------------------------------------------------------------------------

    def validate(self, signature: Signature, took: StepTook) -> None:
        """Judge the signature's plan by a step that followed it.

        It is validated once enough steps kept to the budget, and replanned if one did not, or if steps of this
        signature go on to give back the allocator's cache, whichever steps come between.
        """
        assert self.limit is not None
        state, p = signature.state, self._parameters
        if not isinstance(state, plan_state.Followed):  # its plan was dropped as the step ended
            return
        match replanning.judge(state, took, self.limit, p.warm_up_steps, once=signature.first):
            case Judgement.KEPT:
                self._keep_plan(signature, state.keep(p.validating_steps), self.limit)
            case Judgement.ALLOCATED if state.finished:
                self._keep_plan(signature, state.allocate(), self.limit)
            case Judgement.UNSTEADY if isinstance(state, plan_state.Open):
                then = replanning.after_unsteady(state, self._search(signature), p, took.retries, self._steady_margin)
                self._replan(signature, state, then)
            case Judgement.EXCEEDED if isinstance(state, plan_state.Open) and state.tried.replans <= p.max_replans:
                self._exceeded(signature, state, took)
            case _:
                self._move(signature, state.allocate())

    def _keep_plan(self, signature: Signature, state: plan_state.Judged, limit: int) -> None:
        """Go on to this state, validated if enough steps have kept to the budget; or, in an arena, to a better plan."""
        if self._in_arena is not None and not signature.first:
            better = self._in_arena.look_ahead(signature, state, limit)
            if better is not None:
                self.replans += 1
                self._move(signature, state.improve(*better))
                return
        enough = 1 if signature.first else self._parameters.validating_steps
        if state.kept >= self._parameters.validating_steps:
            self._steady_margin = state.margin
        shown = state.kept + state.allocating * state.finished  # steps show no more of a plan that stays
        if not isinstance(state, plan_state.Validated) and not state.validated and shown >= enough:
            state = state.validate(self._plan(signature, state.candidate, validated=True))
        self._move(signature, state)

    def _exceeded(self, signature: Signature, state: plan_state.OnTrial | plan_state.Validated, took: StepTook) -> None:
        search, p, once = self._search(signature), self._parameters, signature.first
        if self._in_arena is None:
            equal = p.equal_excess_bytes if self.on_gpu else 0
            self._replan(
                signature, state, replanning.after_excess(state, search, p, took, once=once, equal_excess=equal)
            )
            return
        found = self._in_arena.after_excess(signature, state, took, search.limit, p, once=once)
        self.replans += found is not None
        self._move(signature, state.retry(*found, state.tried.replan()) if found is not None else state.finish())

    def _replan(self, signature: Signature, state: plan_state.OnTrial | plan_state.Validated, then: Next) -> None:
        self.replans += not then.last
        chosen = self._with_plan(signature, Found(then.candidate))
        if isinstance(chosen, str):
            self._move(signature, state.refuse(chosen))
        else:
            self._move(signature, state.go_back(*chosen) if then.last else state.retry(*chosen, then.tried))
