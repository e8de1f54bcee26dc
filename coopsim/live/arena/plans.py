"""Plans whose requests all have places in an arena, within the budget: made, and replaced as memory changes."""

from collections.abc import Callable

from coopsim.live.arena.placed import Placed
from coopsim.live.make import PLACINGS, more_to_leave
from coopsim.live.plan_state import Candidate
from coopsim.live.signatures import Signature


class PlacedPlans:
    """Plans step signatures for an arena by `plan`, which plans with the margin that a signature's state has.

    follow: makes the plan of the schedule that a state has. A margin is a number of bytes that a plan leaves of the
    budget.
    """

    def __init__(self, placed: Placed, plan: Callable[[Signature], None], follow: Callable[[Signature], None]) -> None:
        self._placed, self._plan, self._follow = placed, plan, follow

    def make(self, signature: Signature, limit: int) -> None:
        """Plan so that all requests have places within the limit; failing that, with the least height of all tried."""
        state = signature.state
        best: tuple[int, Candidate] | None = None
        for k in range(PLACINGS):
            self._plan(signature)
            if state.plan is None or state.schedule is None:
                break
            places = self._placed.next(state.plan)
            if best is None or places.needed < best[0]:
                best = places.needed, state.candidate
            if places.needed <= limit:
                return
            state.leave(state.margin + more_to_leave(places, limit, k))
        if best is not None:
            state.adopt(best[1])
            self._follow(signature)

    def make_leaving(self, signature: Signature, margin: int, limit: int, tries: int) -> bool:
        """Plan with this margin; if that has no plan, with `tries` margins in all, each nearer to the present one.

        If none of them has a plan, the signature goes back to the present one, which is replanned no more: False.
        """
        state, before = signature.state, signature.state.candidate
        for _ in range(tries):
            state.leave(margin)
            self.make(signature, limit)
            if state.schedule is not None:
                return True
            margin = (before.margin + margin) // 2
        state.restore(before)
        self._follow(signature)
        return False

    def look_ahead(self, signature: Signature, limit: int) -> bool:
        """Replace a plan whose next steps find no places, as memory lies now. True if it was replaced.

        The plan stays if its next steps do find places, or if no other plan's would.
        """
        state = signature.state
        assert state.plan is not None
        if self._placed.next(state.plan).needed <= limit:
            return False
        before = state.candidate
        self.make(signature, limit)
        if state.plan is not None and self._placed.next(state.plan).needed <= limit:
            return True
        state.adopt(before)
        self._follow(signature)
        return False
