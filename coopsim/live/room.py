"""Makes room on the device in a running step: sends values to the host, or raises the cap.

Its `attempt` is the one way in which live runs an op: again, from the same generators, as often as room can be made.
"""

import traceback
from collections.abc import Callable, Collection
from ctypes import c_int64
from typing import Any

import torch

from coopsim.base.text import human
from coopsim.live import device
from coopsim.live.arena.cap import ArenaCap
from coopsim.live.cap import AllocatorCap
from coopsim.live.errors import TRAP, DoesNotFit, LiveError
from coopsim.live.operands import Drawn, Repeats, repeats
from coopsim.live.residency import Residency
from coopsim.live.spilled import Spilled
from coopsim.live.tracked import TrackedStorage

_FOR_ROOM = 1 / 8  #: of the budget, what a step sends because of fragmentation before its cap is raised
_TOLERANCE = 64  #: a hard budget may be exceeded by the budget divided by this, for pages of the allocator
_SPARE = 16  #: the budget divided by this is left to PyTorch's caching allocator, because it fragments
_AT_ONCE = 256  #: the budget divided by this is sent at once, if an op ran out of memory, and doubled at each try
_TRIES = 6  #: for which it is


class Room:
    """Makes room in one step, within a budget.

    limit: the budget in bytes; None while there is none. meter: of a GPU's allocator; None on the CPU. cap: on that
    allocator. hard: raise DoesNotFit rather than exceed the limit. spills: whether values may go to the host; if not,
    as on the CPU, a step without a plan may exceed the limit. ooms: how often the allocator has found no memory, kept
    up to date. by_plan: the step follows a plan, which has its own copies: nothing is sent, and the cap is kept to.
    ending: the step is over, and all that is not on the device comes back. over_cap: whether the allocator had to take
    more than the budget.
    """

    def __init__(
        self,
        residency: Residency,
        spilled: Spilled,
        limit: int | None,
        meter: device.Meter | None,
        cap: AllocatorCap | None,
        *,
        hard: bool,
        spills: bool,
        ooms: c_int64,
    ) -> None:
        self.residency, self.spilled, self.limit, self.ooms = residency, spilled, limit, ooms
        self._meter, self._cap, self._hard, self._spills = meter, cap, hard, spills
        self._in_arena = cap if isinstance(cap, ArenaCap) else None
        self.is_capped = cap is not None and cap.holds  #: whether ops cannot exceed the budget by themselves
        self.by_plan = self.ending = False
        self.over_cap = False
        self._for_room = 0  # bytes sent because the allocator could not use what was free

    # -- ops --------------------------------------------------------------------------------------------------------

    def attempt(
        self,
        func: Any,
        execute: Callable[[], Any],
        protected: Collection[TrackedStorage] | None,
        drawn: Drawn | None = None,
    ) -> Any:
        """Run an op by `execute`, and again as often as it runs out of memory and room can be made.

        An op that cannot be run again may exceed the budget. protected: tracked storages that must not be evicted;
        None: nothing may be evicted, as only the observer knows where values are. drawn: states of the
        generators, to be restored before the op runs again, here or by the caller.
        Returns the op's result, and raises what the last attempt raises: OutOfMemoryError if the op has caught that.
        """
        if repeats(func) is Repeats.NEVER:
            self.exceed(True)
            try:
                return execute()
            finally:
                self.exceed(False)
        tries = 0
        while True:
            before = self.ooms.value
            try:
                out = execute()
                if self.ooms.value == before:
                    return out
                del out
                failure = _caught(func)
            except Exception as error:
                ran_out = _ran_out(error)
                if not ran_out and self.ooms.value == before:
                    if drawn is not None and TRAP in str(error):  # the caller brings back what it reads
                        drawn.restore()
                    raise
                failure = _known(error) if ran_out else _caught(func)
                _clear(error)
            if drawn is not None:
                drawn.restore()
            try:
                if not self.short(protected, tries):
                    raise failure
            finally:
                del failure  # which refers to this frame, and so to the operands
            tries += 1

    def exceed(self, begin: bool) -> None:
        """Let ops exceed the budget from now on, or no more; does nothing unless it `is_capped`."""
        if self._cap is None or not self.is_capped:
            return
        if begin:
            self._cap.lift()
        else:
            self._cap.set()
            self.over_cap |= self.limit is not None and self._cap.exceeded(self.limit)  # None: steps are only recorded

    # -- room --------------------------------------------------------------------------------------------------------

    @property
    def allocated(self) -> int:
        """Bytes that are allocated now."""
        return self._meter.now() if self._meter is not None else self.residency.ledger.live_bytes

    def holds_all_and(self, nbytes: int) -> bool:
        """Whether so many bytes fit in the budget beside all values, those on the host too, with something to spare."""
        there = self.allocated + self.spilled.nbytes
        return self.limit is None or there + nbytes <= self.limit - self.limit // _SPARE

    def make(self, nbytes: int, protected: Collection[TrackedStorage]) -> None:
        """Send values to the host, but none of `protected`, until `nbytes` more fit, with something to spare.

        Does nothing while there is no budget, or nothing may be sent. If they cannot fit, raises DoesNotFit if the
        limit is hard, else returns.
        """
        if self.limit is None or not self._spills:
            return
        over = self.allocated + nbytes - self.limit
        fragments = self._meter is not None and self._in_arena is None
        missing = over + (self.limit // _SPARE if fragments else 0)
        if missing > 0 and (sending := self._sending()) is not None:
            over -= sending.send(missing, protected)
            if over > 0 and self._hard:
                left = human(max(self.limit - self.allocated, 0))
                lacks = f"an op needs {human(nbytes)} more, and of the budget of {human(self.limit)} {left} are left"
                raise DoesNotFit(f"{lacks} with {self._why_no_more(over, protected)}")

    def _why_no_more(self, nbytes: int, protected: Collection[TrackedStorage]) -> str:
        """Why so many bytes that an op lacks cannot be had by sending values to the host."""
        if not self.spilled.is_full(protected):
            return "nothing more to send to the host"
        enough = human(self.spilled.nbytes + nbytes)
        return f"--host-memory of {human(self.spilled.most_bytes or 0)} full: for this op {enough} would have sufficed"

    def short(self, protected: Collection[TrackedStorage] | None, tries: int) -> bool:
        """Make room after an op ran out of memory: send values, or raise the cap. False if neither can be done.

        A hard budget is exceeded only if nothing is left to send, and the step has left its plan. protected: as
        `attempt` takes it. tries: how often the op has run out of memory before.
        """
        if self._in_arena is not None:
            if protected is None:
                return False
            if (sending := self._sending()) is not None and self._in_arena.make_hole(sending, protected):
                return True
            return not (self._hard and self.by_plan) and self._higher()  # beyond it only once the plan is left
        if self.by_plan:
            return self._higher(self._tolerated if self._hard else None) or self._end_above()
        if protected is None:
            return False
        if self._hard and self._higher(self._tolerated):
            return True
        limit, sending = self.limit or 0, self._sending()
        if not self._hard and self._for_room >= limit * _FOR_ROOM and self._higher():
            return True
        sent = sending.send((limit // _AT_ONCE or 1) << min(tries, _TRIES), protected) if sending is not None else 0
        self._for_room += sent
        if sending is not None and not sent and self._hard and sending.is_full(protected):
            why = self._why_no_more(limit // _AT_ONCE, protected)
            raise DoesNotFit(f"an op finds no room in the budget of {human(limit)}, with {why}")
        return sent > 0 or self._higher() or self._end_above()

    def _sending(self) -> Spilled | None:
        """What sends values to the host; None where nothing may be sent now."""
        return self.spilled if self._spills and not (self.by_plan or self.ending) else None

    @property
    def _tolerated(self) -> int:
        """What the allocator may take in a hard budget, for its pages."""
        limit = self.limit or 0
        return limit + limit // _TOLERANCE

    def _end_above(self) -> bool:
        """Let what was sent come back above the budget, as the step is over. False if there is no cap in the way."""
        if not self.ending or self._cap is None or not self._cap.holds:
            return False
        self._cap.lift()
        self.over_cap = True
        return True

    def _higher(self, most: int | None = None) -> bool:
        """Raise the cap, to `most` bytes at most, above the budget. False if that is not possible."""
        if self._cap is None or not self._cap.higher(most):
            return False
        self.over_cap = True
        return True


def _caught(func: Any) -> Exception:
    """The error of an op that has caught it. Raises LiveError if the op has done what cannot be done again."""
    if repeats(func) is not Repeats.ALWAYS:
        raise LiveError(f"{func} found no memory, went on, and changed its operands: it cannot be run again")
    return torch.OutOfMemoryError("CUDA out of memory. The op caught this, and would have gone on another way")


def _ran_out(error: Exception) -> bool:
    """Whether an op found no room, as PyTorch says it, or an arena (library.RAISES)."""
    raised = type(error) is RuntimeError and str(error).startswith("CUDA out of memory")
    return raised or isinstance(error, torch.OutOfMemoryError)


def _known(error: Exception) -> Exception:
    """The error that programs know for that."""
    return error if isinstance(error, torch.OutOfMemoryError) else torch.OutOfMemoryError(str(error))


def _clear(error: BaseException | None) -> None:
    """Let go of what the op has made, which the frames of its error refer to."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
