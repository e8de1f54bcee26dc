"""The log of a replay: rows that the core writes, taken whenever its array is full."""

import ctypes

import numpy as np

from coopsim.base.types import Action, CoopsimError
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import address_of

ROWS = 1 << 15  #: of the core's array

_TAKE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_COUNTED = {
    Action.EVICT: s.K_EVICTIONS,
    Action.RELEASE: s.K_RELEASES,
    Action.RECOMPUTE: s.K_RECOMPUTES,
    Action.OFFLOAD: s.K_OFFLOADS,
    Action.FETCH: s.K_FETCHES,
}


class Log:
    """All rows of one run of the core on `state`. A replay runs once: nothing counts them beforehand."""

    def __init__(self, state: s.State) -> None:
        self._state, self._taken = state, list[s.Array]()
        self._callback = _TAKE(self._take)
        state.K[s.K_LOG_HOOK] = address_of(self._callback)

    def _take(self, _what: int, rows: int) -> int:
        self._taken.append(self._state.log[:rows].copy())
        return 0

    def rows(self) -> s.Array:
        """The rows, in order. CoopsimError if they are not those that the core has counted."""
        K, log = self._state.K, self._state.log
        found = np.concatenate([*self._taken, log[: K[s.K_ROWS] - K[s.K_TAKEN]]])
        counts = np.bincount(found[:, s.L_ACTION], minlength=len(Action))
        wrong = [f"{a.name.lower()} {counts[a]} and {K[at]}" for a, at in _COUNTED.items() if counts[a] != K[at]]
        if (ops := counts[Action.COMPUTE] + counts[Action.RECOMPUTE]) != K[s.K_OPS]:
            wrong.append(f"ops {ops} and {K[s.K_OPS]}")
        if len(found) != K[s.K_ROWS]:
            wrong.append(f"rows {len(found)} and {K[s.K_ROWS]}")
        if wrong:
            raise CoopsimError(f"a defect of coopsim: the schedule's rows and counters differ ({'; '.join(wrong)})")
        return found
