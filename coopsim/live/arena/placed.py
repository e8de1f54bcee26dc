"""Places the requests of planned steps: when such a step begins, finds addresses around the blocks that exist then.

A request is a call to the arena for a block. Which ones a step by a plan makes, and when it frees them, is simulated.
"""

import ctypes
from collections import defaultdict
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.live.arena.library import Arena
from coopsim.live.arena.place import Gone, Places, Resting, place, place_rest, stays
from coopsim.live.arena.requests import Requests, requests_of
from coopsim.live.plan import Plan
from coopsim.live.signatures import Signature


class Placed:
    """Finds addresses for the requests of plans, and hands them to an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._others = 0  # bytes that stay and are not the program's, such as cuBLAS's workspaces
        self._asked: WeakKeyDictionary[Plan, Requests] = WeakKeyDictionary()
        self._last: tuple[Plan | None, Places | None] = None, None
        self._begun = self._begun_before = 0  # when this step began, and the one before, in requests

    def count_others(self, nbytes: int) -> None:
        """Leave room for so many bytes that stay and are not the program's."""
        self._others = nbytes

    def begin(self) -> None:
        """Note the beginning of a step, before its first request."""
        self._begun_before, self._begun = self._begun, int(self._arena.stats.requests)

    def follow(self, plan: Plan, state: Any, at: int, decided: int = 0) -> None:
        """Place the step's requests by this plan, from entry `at` of its op log on, around the blocks that exist now.

        state: a ctypes array of numbers by observer.State, which the follower keeps up to date. decided: the entry by
        which it is known whether the step follows the plan; what the ops before have used is not freed until then.
        """
        asked = self._requests(plan)
        now = asked.start[at]
        resting, gone = self._lie(plan, now, self._begun_before)
        places = place_rest(asked, resting, int(self._arena.stats.size), gone, now, asked.start[decided])
        last, before = self._last
        if now and last is plan and before is not None:  # where `expect` has placed the requests so far
            places = replace(places, offset=[*before.offset[:now], *places.offset[now:]])
        number = ctypes.c_int64.from_buffer(state, ctypes.sizeof(ctypes.c_int64))
        self._arena.follow(number, asked.start, asked.nbytes, places.offset)
        self._last = plan, places

    def expect(self, signature: Signature) -> Any:
        """Place the first requests by the plan of a signature that the step may turn out to be of.

        Returns the state that the caller has to keep alive and up to date, as `follow` takes it.
        """
        state = (ctypes.c_int64 * 2)()
        assert signature.plan is not None
        self.follow(signature.plan, state, 0, signature.decided)
        return state

    def end(self) -> None:
        """Stop placing requests by a plan; does nothing if none is followed."""
        self._arena.unfollow()

    def needed(self, plan: Plan) -> int:
        """The size of an arena in which all requests of following steps by this plan have addresses.

        They are sought around what the running step leaves.
        """
        resting, _ = self._lie(plan, 0, self._begun)
        return place(self._requests(plan), resting, int(self._arena.stats.size)).needed

    def _requests(self, plan: Plan) -> Requests:
        """The requests of a step by this plan, which are simulated at the first call."""
        if plan not in self._asked:
            self._asked[plan] = requests_of(plan)
        return self._asked[plan]

    def _lie(self, plan: Plan, now: int, since: int) -> tuple[Resting, tuple[Gone, ...]]:
        """The blocks that exist: those that stay, and those that the step will free.

        now: the number of the step's requests so far. A block from before request `since` stays. Of younger blocks,
        those go that this plan's requests have made, where they were placed; beyond these, as many of each size as the
        plan frees, from the highest address down: what goes late lies low. What others are still to allocate, as
        cuBLAS's workspaces in a first step, is one more block that stays, in the highest gap, where requests go that no
        plan has.
        """
        asked = self._requests(plan)
        made = zip(asked.nbytes[:now], asked.until[:now], strict=True)
        going: dict[tuple[int, bool], list[int]] = defaultdict(list)  # by size, and whether the step has made it
        for own, blocks in ((False, asked.initial), (True, made)):
            for nbytes, until in blocks:
                if until >= now:  # those that go now may be there still
                    going[nbytes, own].append(until)
        last, places = self._last
        known: dict[tuple[int, int], int] = {}
        if last is plan and places is not None:
            known = {(places.offset[i], asked.nbytes[i]): until for i, until in places.left}
            known |= zip(zip(places.offset, asked.nbytes, strict=True), asked.until[:now], strict=False)
        resting, gone = [], []
        layout = sorted(self._arena.layout(), key=lambda block: (block[:2] in known, block), reverse=True)
        for offset, nbytes, born in layout:
            own = now > 0 and born >= self._begun
            untils = going[nbytes, own]
            if not untils or born < since:
                resting.append((offset, nbytes))
                continue
            until = known.get((offset, nbytes), -1)
            if until not in untils:
                until = max(untils) if own else min(untils)
            untils.remove(until)
            gone.append((offset, nbytes, until))
        missing = stays(asked, plan.trace, self._others) - sum(nbytes for _, nbytes in resting)
        coming = min(max(missing, 0), self._others)
        top = int(self._arena.stats.size)
        for offset, nbytes in sorted(resting, reverse=True):
            if top - (offset + nbytes) >= coming:
                break
            top = offset
        return (*sorted(resting), (max(top - coming, 0), coming)), tuple(sorted(gone))
