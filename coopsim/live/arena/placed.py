"""Steps by plan, with their requests at planned places: found when such a step begins, from how memory lies then."""

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.live.arena.library import Arena
from coopsim.live.arena.place import Gone, Places, around, place, stays
from coopsim.live.arena.requests import Requests, requests_of
from coopsim.live.plan import Plan

_KEPT = 16  #: ways in which memory may lie at the start of a step, of which the places are kept

Block = tuple[int, int]  #: offset and bytes


class Placed:
    """Tells an arena where the requests of steps go."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.others = 0  #: bytes of what stays and is not the program's, such as cuBLAS's workspaces
        self._asked: WeakKeyDictionary[Plan, Requests] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[Plan, dict[tuple[Block, ...], Places]] = WeakKeyDictionary()
        self._around: WeakKeyDictionary[Plan, dict[tuple[Any, ...], Places]] = WeakKeyDictionary()
        self._last: tuple[Plan | None, Places | None] = None, None
        self._begun = self._begun_before = 0  # when this step began, and the one before, in requests

    def begin(self) -> None:
        """A step begins."""
        self._begun_before, self._begun = self._begun, int(self._arena.stats.requests)

    def follow(self, plan: Plan, state: Any, at: int) -> None:
        """The step goes by this plan from entry `at` of its tape on. state: follow.Follow's, of ctypes."""
        asked, places = self.asked(plan), self.places(plan, at)
        number = ctypes.c_int64.from_buffer(state, ctypes.sizeof(ctypes.c_int64))
        self._arena.follow(number, asked.start, asked.nbytes, places.offset, places.height)
        self._last = plan, places

    def expect(self, plan: Plan) -> Any:
        """The step may go by this plan: put its first requests so. Gives a state as `follow` takes one, to be kept."""
        state = (ctypes.c_int64 * 2)()
        self.follow(plan, state, 0)
        return state

    def end(self) -> None:
        """It goes by no plan any more."""
        self._arena.unfollow()

    def asked(self, plan: Plan) -> Requests:
        """What a step by the plan asks for."""
        if plan not in self._asked:
            self._asked[plan] = requests_of(plan)
        return self._asked[plan]

    def places(self, plan: Plan, at: int = 0) -> Places:
        """Where that goes, as memory lies now, when entry `at` of its tape comes next."""
        asked = self.asked(plan)
        now = asked.start[at]
        resting, others = self._lie(plan, now, self._begun_before)
        usual = self._usual(plan, resting)
        if set(others) <= set(usual.left):
            return usual
        room = int(self._arena.stats.size) - self._coming(plan, resting)
        make = partial(around, asked, usual, others, resting, room, now)
        return _kept(self._around.setdefault(plan, {}), (resting, others, at), make)

    def next(self, plan: Plan) -> Places:
        """Of steps by this plan, when this step is over."""
        resting, _ = self._lie(plan, 0, self._begun)
        return self._usual(plan, resting)

    def _usual(self, plan: Plan, resting: tuple[Block, ...]) -> Places:
        size, coming = int(self._arena.stats.size), self._coming(plan, resting)
        make = partial(place, self.asked(plan), resting, size, coming)
        return _kept(self._places.setdefault(plan, {}), resting, make)

    def _coming(self, plan: Plan, resting: tuple[Block, ...]) -> int:
        """Bytes of others that are not there yet, as cuBLAS's workspaces in the first step."""
        missing = stays(self.asked(plan), plan.trace, self.others) - sum(n for _, n in resting)
        return min(max(missing, 0), self.others)

    def _lie(self, plan: Plan, now: int, since: int) -> tuple[tuple[Block, ...], tuple[Gone, ...]]:
        """How memory lies: what stays, and what goes. `now`: so many requests of the step are over.

        What was there before request `since` stays. Of what is younger, that goes which a step by this plan has left;
        else so much of each size as the plan says, from the highest down: what stays lies low.
        """
        asked = self.asked(plan)
        made = zip(asked.nbytes[:now], asked.until[:now], strict=True)
        own, going = (
            _by_size((n, until) for n, until in some if until > now or not now) for some in (made, asked.initial)
        )
        last, places = self._last
        left = {(at, n): until for at, n, until in places.left} if last is plan and places is not None else {}
        layout = [(offset, nbytes, born) for offset, nbytes, born in self._arena.layout() if born >= since]
        others: list[Gone] = []
        for offset, nbytes, born in layout:
            until = left.get((offset, nbytes), -1)
            if born < self._begun and until in going.get(nbytes, []):
                going[nbytes].remove(until)
                others.append((offset, nbytes, until))
        known = {offset for offset, _, _ in others}
        for offset, nbytes, born in reversed(layout):
            those = (own if now and born >= self._begun else going).get(nbytes)
            if those and offset not in known:
                others.append((offset, nbytes, those.pop()))
        known = {offset for offset, _, _ in others}
        resting = ((offset, nbytes) for offset, nbytes, _ in self._arena.layout() if offset not in known)
        return tuple(resting), tuple(sorted(others))


def _kept(known: dict[Any, Places], key: Any, make: Callable[[], Places]) -> Places:
    """What is known, or is made now."""
    if key not in known:
        if len(known) == _KEPT:
            del known[next(iter(known))]
        known[key] = make()
    return known[key]


def _by_size(blocks: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Until when those of each size are there; the longest first."""
    found: dict[int, list[int]] = defaultdict(list)
    for nbytes, until in blocks:
        found[nbytes].append(until)
    return {nbytes: sorted(untils) for nbytes, untils in found.items()}
