"""Plans of the kinds of step that a session has: they are made for the budget, and mended where steps took more."""

import numpy as np

from coopsim import metrics
from coopsim.live import schedules
from coopsim.live.arena.placed import Placed
from coopsim.live.errors import DoesNotFit
from coopsim.live.kinds import Kind, Tried
from coopsim.live.make import PLACINGS, more_to_leave
from coopsim.live.plan import Plan
from coopsim.policies import Policy
from coopsim.schedule import Schedule

_REPLANS = 8  #: mended plans of a kind of step, at most
_FRAGMENTS = 50  #: of the budget, the part that the first plan leaves to what a GPU's allocator cannot use
_NEARER = 3  #: margins that are tried if there is no plan with the first, each nearer to the one until now
_PROOF = 3  #: steps: what the allocator has free, and where, changes from step to step
_MARGIN = 0.01  #: of the budget, for what the allocator cannot use: the least that a mended plan leaves
_MORE = 1.5  #: times as much at least, each time that it was not enough
_MORE_FIRST = 2  #: the same of a first step, which is tried once a run, and whose cost counts once
_PAGE = 20 << 20  #: of an expandable segment: a page more or less says nothing of a plan
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
        found = self._with_less(kind, self.limit // _FRAGMENTS) if self.on_gpu else []
        if found:
            self._take(kind, *min(found, key=_cost))
        else:
            self.plan(kind)

    def plan(self, kind: Kind) -> None:
        """Make a plan for a kind of step, if there is one."""
        assert self.limit is not None
        budget = self.limit - self.others
        kind.plan = kind.schedule = kind.too_much = None
        kind.tried, kind.untried = [], []
        if budget <= kind.less:
            kind.why = "nothing is left of the budget"
            return
        schedule = schedules.find(kind.trace, self.policy, budget - kind.less)
        if kind.less and schedules.explain(schedule):
            schedule = schedules.padded(kind.trace, self.policy, budget, kind.less) or schedule
        kind.why = schedules.explain(schedule)
        if not kind.why:
            self._take(kind, kind.less, schedule)

    def _take(self, kind: Kind, less: int, schedule: Schedule) -> None:
        kind.schedule, kind.less, kind.proven, kind.kept, kind.why = schedule, less, False, 0, ""
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
            if self.placed is not None and not (kind.first or kind.looked_ahead):
                kind.looked_ahead = True
                if self._replaced(kind, self.placed):
                    return  # that plan has to prove itself
            kind.kept += 1
            if not kind.proven and (kind.first or kind.kept == _PROOF):
                kind.proven = True
                kind.tried, kind.untried = [], []
                self.follow(kind)
        elif kind.replans <= _REPLANS:
            kind.replans += 1
            least = int(_MARGIN * self.limit)
            if self.placed is not None:
                over = over if kind.first else 0  # of a block beside the arena: what lacked was a hole for it
                self._place_with_less(kind, max(over, 2 * kind.less, least), self.placed)
            elif kind.schedule is not None:
                kind.tried.append(Tried(ran_out, over, kind.schedule, kind.less))
                if ran_out:  # by how much is not known: plans that leave less are not worth a step
                    kind.untried = [one for one in kind.untried if one[0] > kind.less]
                more = (_MORE_FIRST if kind.first or ran_out else _MORE) * max(tried.less for tried in kind.tried)
                self._mend(kind, max(kind.less + over, int(more), least))

    def _mend(self, kind: Kind, less: int) -> None:
        """Go by the cheapest plan that is not tried yet, of those that leave so much and of those known before.

        If there is none, or it takes too long, go back to the cheapest of those that took least.
        """
        goes_on = kind.replans <= _REPLANS
        known = [*kind.untried, *(self._with_less(kind, less) if goes_on else ())]
        kind.untried = [one for one in known if not any(_same(one[1], tried.schedule) for tried in kind.tried)]
        if goes_on and kind.untried:
            self.replans += 1
            self._take(kind, *min(kind.untried, key=_cost))
            return
        ran_out, over = min((tried.ran_out, tried.over) for tried in kind.tried)
        over += _PAGE if self.on_gpu else 0
        nearest = [tried for tried in kind.tried if tried.ran_out == ran_out and tried.over <= over]
        best = min(nearest, key=lambda tried: tried.schedule.overhead or 0.0)
        kind.replans = _REPLANS + 1
        self._take(kind, best.less, best.schedule)

    def _with_less(self, kind: Kind, less: int) -> list[tuple[int, Schedule]]:
        """Schedules, and the bytes of the budget that they leave.

        One that leaves so many at every op; and if that is expensive, one that leaves them where ops can, too. Where
        there is none, fewer, but more than until now.
        """
        assert self.limit is not None
        room = self.limit - self.others
        margins = [less]
        while len(margins) < _NEARER:
            margins.append((kind.less + margins[-1]) // 2)
        found: list[tuple[int, Schedule]] = []
        for margin in margins:
            if margin < (room if kind.too_much is None else kind.too_much):
                schedule = schedules.find(kind.trace, self.policy, room - margin)
                if not schedules.explain(schedule):
                    found.append((margin, schedule))
                    break
                kind.too_much = margin
        if found and found[0][0] == less and _cost(found[0]) <= schedules.CHEAP:
            return found
        for margin in margins:
            padded = schedules.padded(kind.trace, self.policy, room, margin)
            if padded is not None and not schedules.explain(padded):
                return [*found, (margin, padded)]
        return found

    def _place_with_less(self, kind: Kind, less: int, placed: Placed) -> None:
        """Plan again, with so much less of the budget; with not quite so much, if that has no plan."""
        before, had = kind.schedule, kind.less
        for _ in range(_NEARER):
            kind.less = less
            self._plan_in_place(kind, placed)
            if kind.schedule is not None:
                self.replans += 1
                return
            less = (had + less) // 2
        kind.schedule, kind.less, kind.replans, kind.why = before, had, _REPLANS + 1, ""
        self.follow(kind)

    def _replaced(self, kind: Kind, placed: Placed) -> bool:
        """A step by the plan kept to the budget. Take another if, as memory lies now, the next ones do not find places.

        False: the plan stays. Either they do, or no other has places for them.
        """
        assert self.limit is not None
        assert kind.plan is not None
        if placed.next(kind.plan).needed <= self.limit:
            return False
        before, had = kind.schedule, kind.less
        self._plan_in_place(kind, placed)
        if kind.plan is not None and placed.next(kind.plan).needed <= self.limit:
            self.replans += 1
            return True
        assert before is not None
        self._take(kind, had, before)
        return False

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
            self._take(kind, *best[1:])


def _cost(one: tuple[int, Schedule]) -> float:
    return one[1].overhead or 0.0


def _same(a: Schedule, b: Schedule) -> bool:
    """Do they have the same actions, wherever the bytes lie?"""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("action", "op", "storage", "version"))
