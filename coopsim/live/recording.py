"""A step that is recorded: until its signature is known (Deciding), or to its end (Recording).

Steps that dispatch the same ops on the same sizes have one signature (signatures.py), which may have a plan.
"""

from collections.abc import Sequence
from typing import Any

import torch

from coopsim.live.following import Following
from coopsim.live.op_log import StepRecorder
from coopsim.live.signatures import Signature
from coopsim.live.spilling import Spilling
from coopsim.live.state import Context, State


class _Recorded(State):
    """recorder: of the ops since the step began, which runs them on demand."""

    def __init__(self, context: Context, recorder: StepRecorder) -> None:
        super().__init__(context)
        self.recorder = recorder

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep a storage in place; no plan makes it again."""
        super().pin(storage)
        self.recorder.writers.located(storage)

    def end(self, *, learn: bool) -> None:
        """The step is over. learn: it went to its end, and can be planned."""
        self.recorder.end(learn=learn)


class Recording(_Recorded):
    """Records a step to its end."""

    def begin(self) -> None:
        """Begin to record. LiveError if the program cannot be followed."""
        self.recorder.begin()
        self.go_on()

    def go_on(self) -> None:
        """Go on to record all of the step. LiveError if the program cannot be followed."""
        self._context.room.go_without_plan()
        self._context.runner.keeps_calls = False
        self.recorder.commit()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op and record it."""
        return self.recorder.__torch_dispatch__(func, types, args, kwargs)


class Deciding(_Recorded):
    """Records a step until the sizes of its batch are known, and with them its signature.

    If the step begins as a known signature does, it goes on to Following or, where that has no plan, Spilling; else to
    Recording. candidates: signatures that it may turn out to be of, the likeliest first.
    """

    def __init__(self, context: Context, recorder: StepRecorder, candidates: Sequence[Signature]) -> None:
        super().__init__(context, recorder)
        self._candidates = candidates

    def begin(self) -> None:
        """Begin to record."""
        self._context.runner.keeps_calls = True
        self.recorder.begin()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op and record it; then decide, if that is possible."""
        out = self.recorder.__torch_dispatch__(func, types, args, kwargs)
        op_log = self.recorder.op_log
        self._candidates = [signature for signature in self._candidates if signature.has(op_log[-1:], len(op_log) - 1)]
        known = next((signature for signature in self._candidates if signature.decided <= len(op_log)), None)
        if known is not None:
            self._follow(known)
        elif not self._candidates:
            self._record()
        return out

    def _follow(self, signature: Signature) -> None:
        """Go on as steps of this signature do, as far as that is possible."""
        context = self._context
        if signature.plan is None:
            self.recorder.end(learn=False)
            if context.placed is not None:
                context.placed.end()
            self._go_on(Spilling(context, signature)).begin()
            return
        following = Following(context, signature)
        if not following.take_over(entry.storages for entry in self.recorder.op_log):
            self._record()
        else:
            following.start()
            context.runner.keeps_calls = False
            self.recorder.end(learn=False)
            self._go_on(following)

    def _record(self) -> None:
        self._go_on(Recording(self._context, self.recorder)).go_on()
