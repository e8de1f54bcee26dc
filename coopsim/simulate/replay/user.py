"""A user's own policy inside the compiled core: a score or a search as a function, or an EvictionPolicy.

A score is compiled if Numba can, and called by its machine address; all else is Python that the core calls back. An
exception in it ends the replay with one line. A class's instance is made anew for each run of the core.
"""

import ctypes
import math
import operator
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import address_of
from coopsim.simulate.kernel.jit import DISABLED
from coopsim.simulate.policies import Policy
from coopsim.simulate.policies._compiled import COLUMNS, compiled
from coopsim.simulate.policies._eviction_policy import ANSWERS, EVENTS, check_arguments, kinds_of
from coopsim.simulate.policies._foreign import said
from coopsim.simulate.policies._reads import Reads
from coopsim.simulate.replay.user_memory import Memory

if TYPE_CHECKING:
    from coopsim.simulate.planning.program import Program
    from coopsim.trace.table import Trace

_SCORE = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 4)
_HOOK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Hooks:
    """A policy's own functions, for one replay. Keeps alive what the core calls, and the first exception."""

    def __init__(self, policy: Policy, program: "Program", trace: "Trace", seed: int) -> None:
        self.policy, self.program, self.trace, self.seed = policy, program, trace, seed
        for name, arguments in ANSWERS.items():
            if (function := getattr(policy, name)) is not None:
                check_arguments(f"policy {policy.name}: {name}", function, arguments)
        self.error: BaseException | None = None
        self.compiled = self.score_is_own = self.search_is_own = self.search_is_compiled = False
        self._alive: list[Any] = []
        self._carried = {int(heir): int(old) for old, heir in program.carry[:, [s.FROM, s.TO]]}

    def attach(self, state: s.State) -> None:
        """Let the run of the core on `state` tell and ask a fresh instance, or the functions."""
        from coopsim.simulate.replay.user_score import compiled_score, refresh

        self._alive.clear()
        self._state, self.memory = state, Memory(state, self.program, self.trace)
        own = self.policy.own
        it = own and own.for_replay(self.memory, np.random.default_rng(self.seed))
        reads = Reads(self.policy)
        refresh(reads)
        self._choose = self.policy.choose or getattr(it, "choose", None)
        score = self.policy.score or getattr(it, "score", None)
        self.score_is_own, self.search_is_own = score is not None, self._choose is not None
        if self.policy.score and not self._choose and not DISABLED:  # a search may change what a score reads
            code = compiled_score(self.policy.score, reads)
            self.compiled = code is not None
            if code is not None:
                self._alive.append(code)
                state.K[s.K_USER_SCORE] = int(code.address)
        if score is not None and not self.compiled:
            self._score_of = score
            state.K[s.K_USER_SCORE] = self._keep(_SCORE(self._score))
        if start := getattr(it, "start", None):
            self._call(start, self.memory)
            self.check()
        if isinstance(self._choose, compiled):
            self._compile(self._choose, it, state, reads)
        self._told: dict[int, Callable[[int], None]] = _Events(self, it).handlers() if it else {}
        state.K[s.K_HOOK] = self._keep(_HOOK(self._hook))
        state.K[s.K_TOLD] |= sum(1 << what for what in self._told) + (1 << codes.SEARCH if self.search_is_own else 0)

    def _compile(self, search: compiled, it: Any, state: s.State, reads: Reads) -> None:
        """Let the core call a search's machine code; without compilation, the function with the same arrays."""
        if DISABLED:
            self._choose = _interpreted(search, it, state)
            return
        from coopsim.simulate.replay.user_compiled import CompiledSearch

        code = CompiledSearch(search, it, state, reads)
        self._alive.append(code)
        self.search_is_compiled = True
        state.K[s.K_SEARCH], state.K[s.K_TABLE] = code.address, code.words.ctypes.data
        state.K[s.K_TOLD] |= code.wants_scores << codes.SCORES | code.wants_where << codes.WHERE

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it, an exception that a compiled score raises is remembered, not printed.

        The generators of the modules random and numpy.random begin with the seed, and afterwards are what they were.
        """
        before = sys.unraisablehook
        states = random.getstate(), np.random.get_state()  # noqa: NPY002  (what a user's code may use)

        def remember(raised: Any) -> None:
            self.error = self.error or raised.exc_value

        sys.unraisablehook = remember
        random.seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002
        try:
            yield
        finally:
            sys.unraisablehook = before
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002

    def check(self) -> None:
        """CoopsimError if a function raised, or chose what cannot go."""
        if isinstance(self.error, KeyboardInterrupt):
            raise self.error
        if self.error is not None:
            raise CoopsimError(f"policy {self.policy.name}: {said(self.error)}")
        if refused := int(self._state.K[s.K_REFUSED]):
            what = f"value {refused - 1} cannot be evicted now" if refused > 0 else f"there is no value {refused}"
            raise CoopsimError(f"policy {self.policy.name}: choose: {what}{' (-1: a hole)' * (refused == -1)}")

    def _keep(self, function: Any) -> int:
        self._alive.append(function)
        return address_of(function)

    def _score(self, cost: float, recency: float, nbytes: float, hole: float) -> float:
        try:
            return float(self._score_of(cost, recency, nbytes, hole))
        except ZeroDivisionError:
            return math.inf
        except BaseException as e:  # nothing may go through the core, which is not Python
            self.error = self.error or e
            return math.inf

    def _hook(self, what: int, number: int) -> int:
        """What the core calls: an event, or a search for so many bytes. Returns how many victims are in scratch."""
        if self.error is None:
            try:
                if what == codes.SEARCH:
                    return self._victims(self._choose(self.memory, number))  # type: ignore[misc]
                self._told[what](number)
            except BaseException as e:
                self.error = self.error or e
                self._state.K[s.K_TOLD] &= 1 << codes.SEARCH
        return 0

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except BaseException as e:
            self.error = self.error or e

    def _victims(self, values: Iterable[int]) -> int:
        scratch = self._state.scratch
        if isinstance(values, np.ndarray):
            if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
                raise TypeError(f"choose returns the numbers of values, not an array of {values.ndim} x {values.dtype}")
            victims: Any = values
        elif not isinstance(values, Iterable):
            raise TypeError(f"choose returns {values!r:.40}, not the numbers of values")
        else:
            victims = list(dict.fromkeys(map(operator.index, values)))
        if len(victims) > len(scratch):
            raise ValueError(f"choose returns {len(victims)} values, more than there are blocks")
        scratch[: len(victims)] = victims
        return len(victims)


def _interpreted(search: compiled, instance: Any, state: Any) -> Callable[[Any, int], Any]:
    """The search as Python, where nothing is compiled."""
    names = search.names(type(instance).__name__, kinds_of(type(instance)))

    def choose(memory: Any, need: int) -> Any:
        table = memory.table()
        given = {"need": need, "out": state.scratch} | instance.parameters
        values = {n: getattr(table, n) if n in COLUMNS else given.get(n, getattr(instance, n, None)) for n in names}
        return state.scratch[: search.function(**values)].copy()

    return choose


class _Events:
    """Translates rows of the log into a policy's events."""

    def __init__(self, hooks: Hooks, it: Any) -> None:
        self._state, self._carried = hooks._state, hooks._carried
        self._events = {name: event for name in EVENTS if (event := getattr(it, name, None)) is not None}
        self._came: set[int] = set()  # allocated since the last op

    def handlers(self) -> dict[int, Callable[[int], None]]:
        """What to call for each kind of row, or of what else is told, that the policy wants to hear of."""
        e, K, found = self._events, self._state.K, dict[int, Callable[[int], None]]()
        if "op" in e or "recomputed" in e:
            found[codes.COMPUTE] = self._op
        if "recomputed" in e:
            found[codes.RECOMPUTE] = self._again
        if "allocated" in e or "recomputed" in e:
            found[codes.ALLOC] = self._allocated
        if "evicted" in e:
            found[codes.EVICT] = e["evicted"]
        if "dropped" in e:
            found[codes.RELEASE] = found[codes.FREE] = e["dropped"]
        if "dropped" in e or "allocated" in e:
            found[codes.MOVE] = self._moved
        if "used" in e:
            used = e["used"]
            found[codes.USED] = lambda v: used(v, int(K[s.K_CLOCK]))
        if "step" in e:
            found[codes.STEP] = e["step"]
        return found

    def _op(self, op: int) -> None:
        self._came.clear()
        if tell := self._events.get("op"):
            tell(op)

    def _allocated(self, v: int) -> None:
        self._came.add(v)
        if tell := self._events.get("allocated"):
            tell(v)

    def _again(self, op: int) -> None:
        """An op runs again: of what it makes, the values that were missing."""
        S = self._state
        for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
            v = int(S.outs[k])
            if v in self._came or S.V[v, s.BLOCK] < 0:  # those without a block take over another's
                self._events["recomputed"](v)
        self._came.clear()

    def _moved(self, v: int) -> None:
        """A value takes the place of the version before it, or of what it was in the iteration before."""
        S = self._state
        old = self._carried[v] if S.K[s.K_OP] < 0 else int(S.V[v, s.OLDER])
        if tell := self._events.get("dropped"):
            tell(old)
        if tell := self._events.get("allocated"):
            tell(v)
