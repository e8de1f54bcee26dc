"""Plans for the step signatures of a session: made for the budget, and replanned where steps took more than it.

A *margin* is a number of bytes that a plan leaves of the budget. Steps that dispatch the same ops on the same sizes
have one signature (signatures.py), whose `state` has its plan.
"""

from collections.abc import Sequence
from dataclasses import replace

from coopsim.live import ladder
from coopsim.live.arena.placed import Placed
from coopsim.live.background import Background
from coopsim.live.errors import DoesNotFit
from coopsim.live.host import Offloading, step_time
from coopsim.live.ladder import StepTook
from coopsim.live.make import at_start
from coopsim.live.plan import Plan
from coopsim.live.schedules import Search
from coopsim.live.signatures import Candidate, Failure, PlanState, Signature
from coopsim.simulate.policies import Policy

#: Successive steps that keep to the budget before a plan is validated: what the allocator has free, and where, differs
#: from step to step.
VALIDATING_STEPS = 3
#: Steps by a new plan that may take memory from the device or give it back while the caching allocator's segments take
#: their shape. The next that gives back the allocator's cache is replanned; other calls are the program's own.
WARM_UP_STEPS = 3
_GIVING_UP_STEPS = 3  #: successive ones that run out of memory by the last plan, before steps go on without one


class Planning:
    """Makes and replans plans, by a policy, for step signatures in one budget, and moves their states on.

    limit: the budget in bytes; None while it is not known. placed: assigns addresses in an arena to what plans request;
    None where PyTorch's own allocator serves them. offloading: what plans may use of the host. background: makes first
    plans while steps go on without.
    """

    def __init__(
        self,
        policy: Policy | str,
        limit: int | None,
        placed: Placed | None = None,
        offloading: Offloading | None = None,
        background: Background | None = None,
    ) -> None:
        self.policy, self.limit, self.placed = policy, limit, placed
        self.offloading, self.background = offloading or Offloading(), background
        self.on_gpu = False
        self.others = 0  #: bytes that the allocator has given to others than the program's storages
        self.varies = False  #: whether steps leave their plans, which then keep the call of every op
        self.scattered = False  #: whether steps may have left values with holes between them
        self.replans = 0  #: plans that were replanned, over all signatures
        self._steady_margin = 0  # of the latest plan whose steps were steady, of whatever signature

    # -- what plans are for ------------------------------------------------------------------------------------------

    def run_on(self, device_type: str, *, in_arena: bool) -> None:
        """Plan for steps on this type of device, "cuda" or "cpu". in_arena: whether the arena, if any, is on it."""
        self.on_gpu = device_type == "cuda"
        self.offloading.run_on(device_type)
        if not in_arena:
            self.placed = None

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
                self._try(signature, self._found(signature, self._search(signature)))

    def expect_other_steps(self, signatures: Sequence[Signature]) -> None:
        """Let plans keep all that a step needs that leaves its plan, as one has done. signatures: to plan so, too."""
        if not self.varies:
            self.varies = True
            for signature in signatures:
                if (state := signature.state).plan is not None and state.candidate is not None:
                    signature.state = replace(state, plan=self._plan(signature, state.candidate))

    # -- plans for signatures ------------------------------------------------------------------------------------------

    def learn(self, signature: Signature, *, now: bool = False) -> None:
        """Make the first plan of a step signature, for its `state`; if none is found, `why` there says why.

        That of a program's first step is for another start. With a `background`, that makes it, unless `now`, and
        `take` finds it later. On the CPU, raises DoesNotFit if one of its ops needs more than the budget.
        """
        search = self._search(signature)
        if not now and self.asks and self.background is not None:
            self.background.ask(signature, search)
            if not signature.first:
                signature.state = PlanState("its plan is still being made")
        else:
            self._adopt(signature, search, self._found(signature, search))

    def take(self) -> None:
        """Adopt the plans that the background has made since; what it could not make is planned here and now."""
        for signature, search, found in self.background.answers() if self.background is not None else ():
            if signature.plan is not None:
                continue
            if found is None or search.limit != self.limit:
                self.learn(signature)
            else:
                self._adopt(signature, search, found)

    def follow_known(self, signature: Signature) -> None:
        """Follow the schedule that a signature comes with, if any."""
        if (candidate := signature.state.candidate) is not None:
            self._try(signature, candidate, stays=signature.state.stays)

    @property
    def asks(self) -> bool:
        """Whether the background makes first plans."""
        named = isinstance(self.policy, str) and self.placed is None
        return named and self.background is not None and self.background.alive

    def _search(self, signature: Signature) -> Search:
        """For a schedule; the first one of a signature leaves no less than one by which steps of another are steady."""
        assert self.limit is not None
        margin = max(ladder.margins(self.limit)[0], self._steady_margin) if self.on_gpu else 0
        ops = len(signature.op_log) * self.on_gpu
        return Search(
            signature.trace, self.policy, self.limit, self.others, self.offloading.hosting, ops=ops, margin=margin
        )

    def _found(self, signature: Signature, search: Search) -> Candidate | str:
        """The first schedule of a signature; or why there is none. In an arena, its requests have addresses."""
        if self.placed is None:
            return search.first()
        return at_start(signature.op_log, search) if signature.first else self._addressed(signature, search)

    def _addressed(self, signature: Signature, search: Search, least: int = 0) -> Candidate | str:
        """A schedule whose requests have addresses beside what the arena has; or why there is none.

        least: bytes of the budget that it leaves at least.
        """
        assert self.placed is not None
        needed = self.placed.needed
        return search.too_much() or ladder.placed(search, lambda one: needed(self._plan(signature, one)), least)

    def _adopt(self, signature: Signature, search: Search, found: Candidate | str) -> None:
        """Go by what a search has found. On a GPU nothing is refused, as its steps may use the host."""
        if signature.first:
            signature.state = PlanState(found) if isinstance(found, str) else PlanState(signature.state.why, found)
            return
        self._try(signature, found)
        if isinstance(found, str) and not self.on_gpu and search.too_much():
            raise DoesNotFit(found)

    def _try(
        self, signature: Signature, found: Candidate | str, *, stays: bool = False, tried: tuple[Failure, ...] = ()
    ) -> None:
        """Go by a schedule, or by none, and why. If the host has no room for its copies, none has any from then on."""
        if isinstance(found, str):
            signature.state = PlanState(found)
            return
        plan = self._plan(signature, found)
        if self.offloading.reserve(plan.host_bytes):
            signature.state = PlanState("", found, plan, stays=stays, tried=tried)
        else:
            self._try(signature, self._search(signature).leaving(found.margin), stays=stays, tried=tried)

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

    # -- what steps show ---------------------------------------------------------------------------------------------

    def lays_out(self, planned: Sequence[Signature]) -> bool:
        """Whether a step that begins, and may go by one of these plans, first lays out anew what steps have scattered.

        It is due before each step once steps by the last plan that is left ran out of memory.
        """
        due = bool(planned) and (self.scattered or any(one.state.ran_out for one in planned))
        for signature in planned if due else ():
            self.scattered, signature.state = False, replace(signature.state, laid_out=True)
        return due

    def validate(self, signature: Signature, took: StepTook) -> None:
        """Judge the signature's plan by a step that followed it.

        It is validated once enough steps kept to the budget, and another takes its place if one did not, or if steps of
        this signature go on to give back the allocator's cache, whichever steps come between.
        """
        assert self.limit is not None
        state = signature.state
        if state.plan is None:  # it was dropped as the step ended
            return
        exceeded = took.ran_out or took.nbytes > self.limit
        warm = state.allocating >= WARM_UP_STEPS
        steady = signature.first or not (took.retries or (took.calls and not warm))  # no other will be like the first
        allocated = state.allocate(took.retries, ran_out=took.ran_out)
        if not exceeded and (steady or state.stays or not warm):
            self._keep(signature, state.keep(VALIDATING_STEPS) if steady else allocated)
        elif state.stays and not (state.tried and took.nbytes > self.limit):
            gives_up = allocated.ran_out >= _GIVING_UP_STEPS
            why = "steps run out of memory by every plan"
            signature.state = replace(allocated, why=why, plan=None, validated=False) if gives_up else allocated
        elif self.placed is not None:
            self._leave_more(signature, state, took, self.limit)
        else:
            self.scattered = True
            if self.on_gpu and not (exceeded or state.laid_out):
                signature.state = replace(state, kept=0, allocating=0, retries=0)
            else:
                self._replan(signature, state, took, self.limit)

    def _keep(self, signature: Signature, state: PlanState) -> None:
        """Go on to this state, validated if enough steps have kept to the budget."""
        enough = 1 if signature.first else VALIDATING_STEPS
        if state.kept >= VALIDATING_STEPS:
            self._steady_margin = state.margin
        shown = state.kept + state.allocating * state.stays  # steps show no more of a plan that stays
        if not state.validated and shown >= enough:
            state = replace(state, validated=True, tried=state.tried if state.stays else ())
        signature.state = state

    def _leave_more(self, signature: Signature, state: PlanState, took: StepTook, limit: int) -> None:
        """Go on to a plan that leaves twice as much of the arena; if there is none, this one stays.

        Where no other step has the signature, it leaves what this step was over. A block beside the arena says nothing
        of later ones: what lacked was a hole for it.
        """
        excess = took.nbytes - limit if signature.first else 0
        least = max(excess, 2 * state.margin, limit // 100)
        found = self._addressed(signature, self._search(signature), least)
        if isinstance(found, str):
            signature.state = replace(state, stays=True)
        else:
            self.replans += 1
            self._try(signature, found)

    def _replan(self, signature: Signature, state: PlanState, took: StepTook, limit: int) -> None:
        """Go on to a plan that leaves more, after steps did not do well; or, for good, to the best of those tried.

        If that kept to the budget, it stays for as long as steps do: those that were left out as too expensive follow.
        """
        assert state.candidate is not None
        excess = max(took.nbytes - limit, 0)
        retries = (state.retries + took.retries) / (state.allocating + 1)
        tried = (*state.tried, Failure(state.candidate, took.ran_out, excess, retries))
        search = self._search(signature)
        candidate = ladder.climb(tried, search)
        if candidate is not None:
            self.replans += 1
            self._try(signature, candidate, tried=tried)
        else:
            kept = () if took.ran_out or excess else tried
            self._try(signature, ladder.last(tried, search), stays=True, tried=kept)
