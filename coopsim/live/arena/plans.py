"""Plans whose requests all have places in an arena, within the budget: made, and replaced as memory changes."""

from collections.abc import Callable, Iterable
from weakref import WeakSet

from coopsim.live.arena.placed import Placed
from coopsim.live.ladder import StepTook, placed
from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan import Plan
from coopsim.live.plan_state import Chosen, Followed
from coopsim.live.signatures import Signature


class PlacedPlans:
    """Finds them at once. choose: a schedule of a signature that leaves so many bytes, and its plan; or why none."""

    def __init__(
        self, placed: Placed, choose: Callable[[Signature, int], Chosen | str], parameters: PlanningParameters
    ) -> None:
        self._placed, self._choose, self._parameters = placed, choose, parameters
        self._looked: WeakSet[Signature] = WeakSet()  # those whose next steps' places were checked once

    def first(self, signature: Signature, limit: int) -> Chosen | str:
        """A plan whose requests all have places; failing that, the one that needs least; or why there is none."""
        return self._leaving(signature, self._parameters.arena_margins(limit), limit)

    def after_excess(self, signature: Signature, state: Followed, took: StepTook, limit: int) -> Chosen | None:
        """Another plan, after a step that found no place in the arena, or took more than the budget with it; or None.

        Where no other step has the signature, it leaves what that step was over. A block beside the arena says nothing
        of later ones: what lacked was a hole for it.
        """
        excess = took.nbytes - limit if signature.first else 0
        least = max(excess, 2 * state.margin, limit // 100)
        chosen = self._leaving(signature, self._parameters.arena_margins(limit, least), limit)
        return None if isinstance(chosen, str) else chosen

    def look_ahead(self, signature: Signature, state: Followed, limit: int) -> Chosen | None:
        """Another plan, if the next steps of this one find no places as memory lies now; sought once per signature.

        None if its next steps do find places, or if no other plan's would.
        """
        if signature in self._looked:
            return None
        self._looked.add(signature)
        if self._needed(state.plan) <= limit:
            return None
        made = self._leaving(signature, self._parameters.arena_margins(limit, state.margin), limit)
        return made if not isinstance(made, str) and self._needed(made[1]) <= limit else None

    def _leaving(self, signature: Signature, margins: Iterable[int], limit: int) -> Chosen | str:
        return placed(margins, lambda margin: self._choose(signature, margin), self._needed, limit)

    def _needed(self, plan: Plan) -> int:
        return self._placed.next(plan).needed
