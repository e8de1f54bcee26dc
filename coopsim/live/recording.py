"""A step that is recorded: until it is known which kind it is of (Deciding), or to its end (Recording).

Steps that dispatch the same ops on the same sizes are of one kind (kinds.py), which may have a plan.
"""

from collections.abc import Sequence
from typing import Any

from coopsim.live.following import Following
from coopsim.live.kinds import Kind
from coopsim.live.on_demand import OnDemand
from coopsim.live.state import Context, State
from coopsim.live.tape import TapeRecorder


class _Recorded(State):
    """recorder: of the ops since the step began, which runs them on demand."""

    def __init__(self, context: Context, recorder: TapeRecorder) -> None:
        super().__init__(context)
        self.recorder = recorder

    def end(self, *, learn: bool) -> None:
        """The step is over. learn: it went to its end, and can be planned."""
        self.recorder.end(learn=learn)


class Recording(_Recorded):
    """Records a step to its end. kind: whose plan found no room as the step began; None if there was none."""

    def __init__(self, context: Context, recorder: TapeRecorder, kind: Kind | None = None) -> None:
        super().__init__(context, recorder)
        self.kind = kind

    def begin(self) -> None:
        """Begin to record. LiveError if the program cannot be followed."""
        self.recorder.begin()
        self.go_on()

    def go_on(self) -> None:
        """Go on to record all of the step. LiveError if the program cannot be followed."""
        self._context.room.go_on_demand()
        self.recorder.commit()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op and record it."""
        return self.recorder.__torch_dispatch__(func, types, args, kwargs)


class Deciding(_Recorded):
    """Records a step until the sizes of its batch are known, and with them its kind.

    If the step begins as a known kind does, it goes on to Following or, where that has no plan, OnDemand; else to
    Recording. candidates: kinds that it may turn out to be of, the likeliest first.
    """

    def __init__(self, context: Context, recorder: TapeRecorder, candidates: Sequence[Kind]) -> None:
        super().__init__(context, recorder)
        self._candidates = candidates

    def begin(self) -> None:
        """Begin to record."""
        self._context.room.wait_for_plan()
        self.recorder.begin()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op and record it; then decide, if that is possible."""
        out = self.recorder.__torch_dispatch__(func, types, args, kwargs)
        tape = self.recorder.tape
        self._candidates = [kind for kind in self._candidates if kind.has(tape[-1:], len(tape) - 1)]
        known = next((kind for kind in self._candidates if kind.decided <= len(tape)), None)
        if known is not None:
            self._follow(known)
        elif not self._candidates:
            self._record()
        return out

    def _follow(self, kind: Kind) -> None:
        """Go on as steps of this kind do, as far as that is possible."""
        context = self._context
        if kind.plan is None:
            self.recorder.end(learn=False)
            if context.placed is not None:
                context.placed.end()
            self._go_on(OnDemand(context, kind)).begin()
            return
        following = Following(context, kind)
        if not following.finds_room():
            self._record(kind)
        elif not following.take_over(entry.cells for entry in self.recorder.tape):
            self._record()
        else:
            following.start()
            self.recorder.end(learn=False)
            self._go_on(following)

    def _record(self, kind: Kind | None = None) -> None:
        self._go_on(Recording(self._context, self.recorder, kind)).go_on()
