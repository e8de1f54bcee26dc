"""Places the requests of planned steps: when such a step begins, finds addresses around the blocks that exist then.

A request is a call to the arena for a block. Which ones a step by a plan makes, and when it frees them, is simulated.
"""

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from coopsim.live.arena.library import Arena
from coopsim.live.arena.place import Gone, Places, around, place, stays
from coopsim.live.arena.requests import Requests, requests_of
from coopsim.live.ladder import StepTook, arena_margins, placed
from coopsim.live.plan import Plan
from coopsim.live.signatures import Chosen, Signature

_KEPT = 16  #: layouts of memory at the start of a step whose addresses are cached, per plan

Block = tuple[int, int]  #: (offset, bytes)


class Placed:
    """Finds addresses for the requests of plans, and hands them to an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._others = 0  # bytes that stay and are not the program's, such as cuBLAS's workspaces
        self._asked: WeakKeyDictionary[Plan, Requests] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[Plan, dict[tuple[Block, ...], Places]] = WeakKeyDictionary()
        self._around: WeakKeyDictionary[Plan, dict[tuple[Any, ...], Places]] = WeakKeyDictionary()
        self._last: tuple[Plan | None, Places | None] = None, None
        self._begun = self._begun_before = 0  # when this step began, and the one before, in requests

    def count_others(self, nbytes: int) -> None:
        """Leave room for so many bytes that stay and are not the program's."""
        self._others = nbytes

    def begin(self) -> None:
        """Note the beginning of a step, before its first request."""
        self._begun_before, self._begun = self._begun, int(self._arena.stats.requests)

    def follow(self, plan: Plan, state: Any, at: int) -> None:
        """Place the step's requests by this plan, from entry `at` of its op log on.

        state: a ctypes array of numbers by observer.State, which the follower keeps up to date.
        """
        asked, places = self.asked(plan), self.places(plan, at)
        number = ctypes.c_int64.from_buffer(state, ctypes.sizeof(ctypes.c_int64))
        self._arena.follow(number, asked.start, asked.nbytes, places.offset, places.height)
        self._last = plan, places

    def expect(self, plan: Plan) -> Any:
        """Place the first requests by a plan that the step may turn out to follow.

        Returns the state that the caller has to keep alive and up to date, as `follow` takes it.
        """
        state = (ctypes.c_int64 * 2)()
        self.follow(plan, state, 0)
        return state

    def end(self) -> None:
        """Stop placing requests by a plan; does nothing if none is followed."""
        self._arena.unfollow()

    def asked(self, plan: Plan) -> Requests:
        """The requests that a step by this plan makes of the arena, in order, with their sizes and lifetimes.

        They are simulated at the first call for a plan, and kept.
        """
        if plan not in self._asked:
            self._asked[plan] = requests_of(plan)
        return self._asked[plan]

    def places(self, plan: Plan, at: int = 0) -> Places:
        """Addresses for the rest of a step, from entry `at` of the op log on, around the blocks that exist now.

        The latest layouts' addresses are kept, so that steps that begin alike are not planned again.
        """
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
        """Addresses for the following steps, if they go by this plan, around what the running step leaves.

        They only tell whether the plan will have room; nothing is placed by them.
        """
        resting, _ = self._lie(plan, 0, self._begun)
        return self._usual(plan, resting)

    def _usual(self, plan: Plan, resting: tuple[Block, ...]) -> Places:
        size, coming = int(self._arena.stats.size), self._coming(plan, resting)
        make = partial(place, self.asked(plan), resting, size, coming)
        return _kept(self._places.setdefault(plan, {}), resting, make)

    def _coming(self, plan: Plan, resting: tuple[Block, ...]) -> int:
        """Bytes of others that are still to be allocated, as cuBLAS's workspaces in a first step."""
        missing = stays(self.asked(plan), plan.trace, self._others) - sum(n for _, n in resting)
        return min(max(missing, 0), self._others)

    def _lie(self, plan: Plan, now: int, since: int) -> tuple[tuple[Block, ...], tuple[Gone, ...]]:
        """The blocks that exist: those that stay, and those that the step will free.

        now: the number of the step's requests so far. A block from before request `since` stays. Of younger blocks,
        those go that the latest step by this plan has left; beyond these, as many of each size as the plan frees, from
        the highest address down, as what stays lies low.
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
    """The cached value of `key`, made if need be; the oldest entry makes way."""
    if key not in known:
        if len(known) == _KEPT:
            del known[next(iter(known))]
        known[key] = make()
    return known[key]


def _by_size(blocks: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The `until` of blocks by size, in ascending order: popping the last gives the longest."""
    found: dict[int, list[int]] = defaultdict(list)
    for nbytes, until in blocks:
        found[nbytes].append(until)
    return {nbytes: sorted(untils) for nbytes, untils in found.items()}


class PlacedPlans:
    """Finds them at once. choose: a schedule of a signature that leaves so many bytes, and its plan; or why none."""

    def __init__(self, placed: Placed, choose: Callable[[Signature, int], Chosen | str]) -> None:
        self._placed, self._choose = placed, choose
        self._looked: WeakSet[Signature] = WeakSet()  # those whose next steps' places were checked once

    def first(self, signature: Signature, limit: int) -> Chosen | str:
        """A plan whose requests all have places; failing that, the one that needs least; or why there is none."""
        return self._leaving(signature, arena_margins(limit), limit)

    def after_excess(self, signature: Signature, took: StepTook, limit: int) -> Chosen | None:
        """Another plan, after a step that found no place in the arena, or took more than the budget with it; or None.

        Where no other step has the signature, it leaves what that step was over. A block beside the arena says nothing
        of later ones: what lacked was a hole for it.
        """
        excess = took.nbytes - limit if signature.first else 0
        least = max(excess, 2 * signature.state.margin, limit // 100)
        chosen = self._leaving(signature, arena_margins(limit, least), limit)
        return None if isinstance(chosen, str) else chosen

    def look_ahead(self, signature: Signature, limit: int) -> Chosen | None:
        """Another plan, if the next steps of this one find no places as memory lies now; sought once per signature.

        None if its next steps do find places, or if no other plan's would.
        """
        if signature in self._looked:
            return None
        self._looked.add(signature)
        if signature.plan is None or self._needed(signature.plan) <= limit:
            return None
        made = self._leaving(signature, arena_margins(limit, signature.state.margin), limit)
        return made if not isinstance(made, str) and self._needed(made[1]) <= limit else None

    def _leaving(self, signature: Signature, margins: Iterable[int], limit: int) -> Chosen | str:
        return placed(margins, lambda margin: self._choose(signature, margin), self._needed, limit)

    def _needed(self, plan: Plan) -> int:
        return self._placed.next(plan).needed
