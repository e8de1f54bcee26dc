"""A user's own score or search inside the compiled core.

A score is compiled if Numba can, and called by its machine address; else, like every search, it is Python that the
core calls back. An exception in it ends the replay with one line.
"""

import ctypes
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coopsim.kernel import state as s
from coopsim.kernel.call import address_of
from coopsim.kernel.jit import CACHE, DISABLED, kernel
from coopsim.policies import Policy
from coopsim.replay.score import score, terms_of
from coopsim.replay.search import can_go
from coopsim.types import CoopsimError

_SCORE = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 4)
_SEARCH = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Block:
    """A run of memory: `value` is -1 for a hole, `can_go` says whether it may be evicted. A counter has no holes."""

    address: int
    bytes: int
    value: int
    can_go: bool


class Memory:
    """What a search of your own may look at."""

    def __init__(self, state: s.State) -> None:
        self._state = state

    def blocks(self) -> list[Block]:
        """All blocks, in address order. Each counts as visited by the search."""
        S, found = self._state, []
        at = S.K[s.K_HEAD]
        while at >= 0:
            v = int(S.P[at, s.VALUE])
            if v != s.BARRIER:
                can_go = v >= 0 and self.can_go(v)
                found.append(Block(int(S.P[at, s.ADDRESS]), int(S.P[at, s.LENGTH]), v, can_go))
            at = S.P[at, s.NEXT]
        S.K[s.K_VISITS] += len(found)
        return found

    def can_go(self, value: int) -> bool:
        """Whether the value is resident and may be evicted now."""
        S, block = self._state, self._state.V[value, s.BLOCK]
        return bool(block >= 0 and _can_go(S, value) and S.P[block, s.ADDRESS] < S.K[s.K_BORDER])

    def score(self, value: int) -> float:
        """The policy's score of a resident value, by its cost, recency and divisor; counts as computed."""
        S = self._state
        if not 0 <= value < len(S.V) or S.V[value, s.BLOCK] < 0:
            raise ValueError(f"value {value} is not in memory, and has no score")
        S.K[s.K_SCORES] += 1
        return float(_score(S, value))


@kernel
def _can_go(S: s.State, v: int) -> bool:
    return can_go(S, v)


@kernel
def _score(S: s.State, v: int) -> float:
    return score(S, terms_of(S), S.V[v, s.BLOCK], v)


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """What Numba compiles inside goes to this folder."""
    from numba import config

    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


class Hooks:
    """A policy's own functions, for one replay. Keeps alive what the core calls, and the first exception."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.error: BaseException | None = None
        self.memory: Memory | None = None
        self.compiled = False
        self._alive: list[Any] = []
        self._score_at = self._own_score() if policy.score else 0
        self._search_at = self._keep(_SEARCH(self._search)) if policy.choose else 0

    def attach(self, state: s.State) -> None:
        """Let the replay on `state` call the functions."""
        self.memory = Memory(state)
        state.K[s.K_USER_SCORE], state.K[s.K_USER_SEARCH] = self._score_at, self._search_at

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it, an exception that a compiled score raises is remembered, not printed."""
        before = sys.unraisablehook

        def remember(raised: Any) -> None:
            self.error = self.error or raised.exc_value

        sys.unraisablehook = remember if self.compiled else before
        try:
            yield
        finally:
            sys.unraisablehook = before

    def check(self) -> None:
        """CoopsimError if a function raised."""
        if isinstance(self.error, KeyboardInterrupt):
            raise self.error
        if self.error is not None:
            text = str(self.error).splitlines()[0] if str(self.error) else "no message"
            raise CoopsimError(f"policy {self.policy.name}: {type(self.error).__name__}: {text}")

    def _keep(self, function: Any) -> int:
        self._alive.append(function)
        return address_of(function)

    def _own_score(self) -> int:
        prints = "print" in getattr(getattr(self.policy.score, "__code__", None), "co_names", ())
        if not DISABLED and not prints:  # a callback that prints finds no environment to do it in
            import numba  # a quarter of a second, which policies without a score of their own do without

            compile_it = numba.cfunc("float64(float64,float64,float64,float64)", error_model="numpy", cache=True)
            with (
                _kept_in(CACHE),
                warnings.catch_warnings(),
                suppress(Exception),
            ):  # what cannot be compiled runs as Python
                warnings.simplefilter("ignore")
                compiled = compile_it(self.policy.score)
                self.compiled = True
                self._alive.append(compiled)
                return int(compiled.address)
        return self._keep(_SCORE(self._score))

    def _score(self, cost: float, recency: float, nbytes: float, hole: float) -> float:
        try:
            return float(self.policy.score(cost, recency, nbytes, hole))  # type: ignore[misc]
        except ZeroDivisionError:
            return math.inf
        except BaseException as e:  # nothing may go through the core, which is not Python
            self.error = self.error or e
            return math.inf

    def _search(self, need: int) -> int:
        try:
            return self._victims(self.policy.choose(self.memory, need))  # type: ignore[misc]
        except BaseException as e:
            self.error = self.error or e
            return 0

    def _victims(self, values: Iterable[int]) -> int:
        assert self.memory is not None
        S = self.memory._state
        victims = list(dict.fromkeys(int(v) for v in values))
        for v in victims:
            if not 0 <= v < len(S.V) or not self.memory.can_go(v):
                raise ValueError(f"value {v} cannot be evicted now")
        S.scratch[: len(victims)] = victims
        return len(victims)
