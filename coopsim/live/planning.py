"""Plans of the kinds of step that a session has: they are made for the budget, and mended where steps took more."""

from coopsim import metrics
from coopsim.live import schedules
from coopsim.live.arena.placed import Placed
from coopsim.live.errors import DoesNotFit
from coopsim.live.kinds import Kind
from coopsim.live.make import PLACINGS, more_to_leave
from coopsim.live.plan import Plan
from coopsim.policies import Policy
from coopsim.schedule import Schedule

_REPLANS = 6
_FRAGMENTS = 50  #: of the budget, the part that the first plan leaves to what a GPU's allocator cannot use
_NEARER = 3  #: tries of less, if with that there is no plan
_PROOF = 3  #: steps: what the allocator has free, and where, changes from step to step
_MARGIN = 0.01  #: of the budget, for what the allocator cannot use; twice as much each time that it was not enough
_ROOMY = 2  #: times what a step takes, in a budget: if it leaves its plan, what it makes from there on may be evicted


class Planning:
    """limit: the budget, None: there is none yet. placed: finds places in an arena for all that plans ask for."""

    def __init__(self, policy: Policy | str, limit: int | None, placed: Placed | None) -> None:
        self.policy, self.limit, self.placed = policy, limit, placed
        self.on_gpu = False
        self.others = 0  #: bytes that the allocator has given to others than storages
        self.varies = False  #: steps leave their plans, so all is kept that they may need then
        self.replans = 0  #: plans that were mended

    def learn(self, kind: Kind) -> None:
        """Make the first plan of a kind of step. DoesNotFit if one of its ops needs more than the budget."""
        assert self.limit is not None
        least = schedules.least(kind.trace)
        kind.least_bytes = least.nbytes
        if least.nbytes + self.others > self.limit:
            raise DoesNotFit(schedules.too_much(least, self.others, self.limit))
        if self.placed is not None:
            self._plan_in_place(kind, self.placed)
            return
        kind.less = self.limit // _FRAGMENTS if self.on_gpu else 0
        self.plan(kind)
        if kind.schedule is None and kind.less:
            kind.less = 0
            self.plan(kind)

    def plan(self, kind: Kind) -> None:
        """Make a plan for a kind of step, if there is one."""
        assert self.limit is not None
        budget = self.limit - self.others
        kind.plan = kind.schedule = None
        if budget <= kind.less:
            kind.why = "nothing is left of the budget"
            return
        schedule = schedules.find(kind.trace, self.policy, budget, kind.less)
        kind.why = schedules.explain(schedule)
        if kind.why:
            return
        kind.schedule, kind.proven, kind.kept = schedule, False, 0
        self.follow(kind)

    def follow(self, kind: Kind) -> None:
        """Make ready to follow its schedule. While it is not proven, a step may run out of memory and leave it."""
        if self.placed is not None:
            self.placed.others = self.others
        if kind.schedule is not None:
            needed, limit = kind.peak_bytes + self.others, self.limit or 0
            everything = self.varies or (not kind.proven and self.on_gpu) or _ROOMY * needed > limit
            evict = needed + kind.less > limit
            kind.plan = Plan(kind.trace, kind.schedule, kind.tape, everything=everything, evict=evict)
            kind.plan.overhead = metrics.summary(kind.schedule)["overhead"]

    def prove(self, kind: Kind, taken: int, *, ran_out: bool) -> None:
        """A step went by its plan: it must have kept to the budget, and found room. Else plan again, with less."""
        assert self.limit is not None
        over = taken - self.limit
        if over <= 0 and not ran_out:
            kind.kept += 1
            if not kind.proven and (kind.first or kind.kept == _PROOF):
                kind.proven = True
                self.follow(kind)
        elif kind.replans < _REPLANS:
            kind.replans += 1
            self._plan_with_less(kind, max(over, 2 * kind.less, int(_MARGIN * self.limit)))

    def _plan_with_less(self, kind: Kind, less: int) -> None:
        """Plan again, with so much less of the budget; with not quite so much, if that has no plan."""
        before, had = kind.schedule, kind.less
        for _ in range(_NEARER):
            kind.less = less
            if self.placed is not None:
                self._plan_in_place(kind, self.placed)
            else:
                self.plan(kind)
            if kind.schedule is not None:
                self.replans += 1
                return
            less = (had + less) // 2
        kind.schedule, kind.less, kind.replans, kind.why = before, had, _REPLANS, ""
        self.follow(kind)

    def _plan_in_place(self, kind: Kind, placed: Placed) -> None:
        """Plan so that all requests find places within the budget; if they do not, with those that reach least high."""
        assert self.limit is not None
        best: tuple[int, int, Schedule] | None = None
        for k in range(PLACINGS):
            self.plan(kind)
            if kind.plan is None or kind.schedule is None:
                break
            places = placed.next(kind.plan)
            if best is None or places.needed < best[0]:
                best = places.needed, kind.less, kind.schedule
            if places.needed <= self.limit:
                return
            kind.less += more_to_leave(places, self.limit, k)
        if best is not None:
            _, kind.less, kind.schedule = best
            kind.why = ""
            self.follow(kind)
