"""Steps by plan, with their requests at planned places: found when such a step begins, from how memory lies then."""

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.live.arena.library import Arena
from coopsim.live.arena.place import Gone, Places, around, place
from coopsim.live.arena.requests import Requests, requests_of
from coopsim.live.plan import Plan

_KEPT = 16  #: ways in which memory may lie at the start of a step, of which the places are kept

Block = tuple[int, int]  #: offset and bytes


class Placed:
    """Tells an arena where the requests of steps go."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._asked: WeakKeyDictionary[Plan, Requests] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[Plan, dict[tuple[Block, ...], Places]] = WeakKeyDictionary()
        self._around: WeakKeyDictionary[Plan, dict[tuple[Any, ...], Places]] = WeakKeyDictionary()
        self._begun = self._begun_before = 0  # when this step began, and the one before, in requests

    def begin(self) -> None:
        """A step begins."""
        self._begun_before, self._begun = self._begun, int(self._arena.stats.requests)

    def follow(self, plan: Plan, state: Any, at: int) -> None:
        """The step goes by this plan from entry `at` of its tape on. state: follow.Follow's, of ctypes."""
        asked, places = self.asked(plan), self.places(plan, at)
        number = ctypes.c_int64.from_buffer(state, ctypes.sizeof(ctypes.c_int64))
        self._arena.follow(number, asked.start, asked.nbytes, places.offset, places.height)

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
        resting, others = self._lie(asked, now, self._begun_before)
        usual = self._usual(plan, resting)
        if set(others) <= set(usual.left):
            return usual
        size = int(self._arena.stats.size)
        make = partial(around, asked, usual, others, resting, size, now)
        return _kept(self._around.setdefault(plan, {}), (resting, others, at), make)

    def next(self, plan: Plan) -> Places:
        """Of steps by this plan, when this step is over."""
        resting, _ = self._lie(self.asked(plan), 0, self._begun)
        return self._usual(plan, resting)

    def _usual(self, plan: Plan, resting: tuple[Block, ...]) -> Places:
        make = partial(place, self.asked(plan), resting, int(self._arena.stats.size))
        return _kept(self._places.setdefault(plan, {}), resting, make)

    def _lie(self, asked: Requests, now: int, since: int) -> tuple[tuple[Block, ...], tuple[Gone, ...]]:
        """How memory lies: what stays, and what goes. `now`: so many requests of the step are over.

        What was there before request `since` stays. Of what is younger, so much goes as the plan says of its sizes.
        """
        going = _by_size(asked.initial)
        until_now = zip(asked.nbytes[:now], asked.until[:now], strict=True)
        made = _by_size((nbytes, until) for nbytes, until in until_now if until > now)
        resting: list[Block] = []
        others: list[Gone] = []
        for offset, nbytes, born in self._arena.layout():
            those = (made if now and born >= self._begun else going).get(nbytes) if born >= since else None
            if those:
                others.append((offset, nbytes, those.pop()))
            else:
                resting.append((offset, nbytes))
        return tuple(resting), tuple(others)


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
