"""The one way in which live runs an op: again, from the same generators, as often as room can be made for it."""

import traceback
from collections.abc import Callable, Collection
from ctypes import c_int64
from typing import Any

import torch

from coopsim.live.drawn import Drawn
from coopsim.live.errors import TRAP, LiveError
from coopsim.live.operands import Repeats, repeats
from coopsim.live.room import Room
from coopsim.live.tracked import TrackedStorage


class Attempts:
    """Runs the ops of one step, and those that make its values again.

    room: makes room where memory runs short. ooms: how often the allocator has found no memory, kept up to date. Some
    of PyTorch's ops, such as convolutions, catch that error and go another way, which could give other bits.
    """

    def __init__(self, room: Room, ooms: c_int64) -> None:
        self._room, self._ooms = room, ooms

    def run(
        self,
        func: Any,
        execute: Callable[[], Any],
        protected: Collection[TrackedStorage] | None,
        drawn: Drawn | None = None,
    ) -> Any:
        """Run an op by `execute`, and again as often as it runs out of memory and room can be made.

        An op that cannot be run again may exceed the budget. protected: tracked storages that must not be evicted;
        None: nothing may be evicted or moved, as only the observer knows where values are. drawn: states of the
        generators, to be restored before the op runs again, here or by the caller.
        Returns the op's result, and raises what the last attempt raises: OutOfMemoryError if the op has caught that.
        """
        if repeats(func) is Repeats.NEVER:
            with self._room.roomy():
                return execute()
        tries = 0
        while True:
            before = self._ooms.value
            try:
                out = execute()
                if self._ooms.value == before:
                    return out
                del out
                failure = self._caught(func)
            except Exception as error:
                ran_out = isinstance(error, torch.OutOfMemoryError)
                caught = not ran_out and self._ooms.value != before
                if not ran_out and not caught:
                    if drawn is not None and TRAP in str(error):  # the caller brings back what it reads
                        drawn.restore()
                    raise
                failure = self._caught(func) if caught else error
                _clear(error)
            if drawn is not None:
                drawn.restore()
            try:
                if not self._room.short(protected, tries):
                    raise failure
            finally:
                del failure  # which refers to this frame, and so to the operands
            tries += 1

    def _caught(self, func: Any) -> Exception:
        """The error of an op that has caught it. Raises LiveError if the op has done what cannot be done again."""
        if repeats(func) is not Repeats.ALWAYS:
            raise LiveError(f"{func} found no memory, went on, and changed its operands: it cannot be run again")
        return torch.OutOfMemoryError("CUDA out of memory. The op caught this, and would have gone on another way")


def _clear(error: BaseException | None) -> None:
    """Let go of what the op has made, which the frames of its error refer to."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
