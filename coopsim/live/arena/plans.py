"""Plans whose requests all have places in an arena, within the budget: made, and replaced as memory changes."""

from collections.abc import Callable
from typing import Any, cast
from weakref import WeakSet

from coopsim.live.arena.placed import Placed
from coopsim.live.make import PLACINGS, make, more_to_leave
from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan import Plan
from coopsim.live.plan_file import Planned
from coopsim.live.plan_state import Candidate, Followed
from coopsim.live.replanning import StepTook
from coopsim.live.search import Found, Question, Search, Wanted
from coopsim.live.signatures import Signature

Chosen = tuple[Candidate, Plan]  #: a schedule, and its plan


class PlacedPlans:
    """A PlanMaker for an arena, which answers at once.

    choose: finds a schedule of a signature that leaves exactly so many bytes of the budget, its margin, and makes the
    plan; or says why there is none.
    """

    def __init__(self, placed: Placed, choose: Callable[[Signature, int], Chosen | str]) -> None:
        self._placed, self._choose = placed, choose
        self._looked: WeakSet[Signature] = WeakSet()  # those whose next steps' places were checked once

    def ask(self, signature: Signature, question: Question) -> Found:
        """A plan whose requests all have places; failing that, one with the least height of all tried.

        A first plan leaves no more than that takes, whatever the question says.
        """
        match question.wanted:
            case Wanted.STORED:
                return _at_start(signature, question.search)
            case Wanted.FIRST if why := question.search.too_much():
                return Found(None, why, too_much=True)
        margin = question.margin if question.wanted is Wanted.ANEW else signature.state.margin
        made = self._make(signature, margin, question.search.limit)
        return Found(None, made) if isinstance(made, str) else Found(made[0], plan=made[1])

    def after_excess(
        self, signature: Signature, state: Followed, took: StepTook, limit: int, p: PlanningParameters, *, once: bool
    ) -> Chosen | None:
        """Another plan, after a step that found no place in the arena, or took more than the budget with it; or None.

        once: no other step has this signature.
        """
        excess = took.nbytes - limit if once else 0  # of a block beside the arena: what lacked was a hole for it
        margin = max(excess, 2 * state.margin, int(p.least_margin * limit))
        return self.leaving(signature, state.margin, margin, limit, p.margins_tried)

    def leaving(self, signature: Signature, own: int, margin: int, limit: int, tries: int) -> Chosen | None:
        """A plan with this margin; if that has none, with `tries` margins in all, each nearer to the present, `own`."""
        for _ in range(tries):
            made = self._make(signature, margin, limit)
            if not isinstance(made, str):
                return made
            margin = (own + margin) // 2
        return None

    def look_ahead(self, signature: Signature, state: Followed, limit: int) -> Chosen | None:
        """Another plan, if the next steps of this one find no places as memory lies now; sought once per signature.

        None if its next steps do find places, or if no other plan's would.
        """
        if signature in self._looked:
            return None
        self._looked.add(signature)
        if self._placed.next(state.plan).needed <= limit:
            return None
        made = self._make(signature, state.margin, limit)
        return made if not isinstance(made, str) and self._placed.next(made[1]).needed <= limit else None

    def _make(self, signature: Signature, margin: int, limit: int) -> Chosen | str:
        best: tuple[int, Chosen] | None = None
        for k in range(PLACINGS):
            chosen = self._choose(signature, margin)
            if isinstance(chosen, str):
                return best[1] if best is not None else chosen
            candidate, plan = chosen
            places = self._placed.next(plan)
            if best is None or places.needed < best[0]:
                best = places.needed, chosen
            if places.needed <= limit:
                return chosen
            margin = candidate.margin + more_to_leave(places, limit, k)
        assert best is not None
        return best[1]


def _at_start(signature: Signature, search: Search) -> Found:
    """A schedule of a first step whose requests have places in an arena that is still empty."""
    planned = Planned(signature.trace, cast("Any", signature.op_log), signature.decided, first=True)
    how: dict[str, Any] = {"search": False, "arena": True, "hosting": search.hosting}
    made = make(planned, cast("str", search.policy), search.limit, search.others, **how).signature
    return Found(Candidate(made.margin, made.schedule) if made.schedule is not None else None, made.why)
