"""The states of a step that is recorded, until its signature is known or to its end, and of one by a plan.

The plan's op log has an entry for each op, and a row says what to do there (plan.py). Steps that dispatch the same ops
on the same sizes have one signature (signatures.py), which may have a plan.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from coopsim.live.errors import TRAP, Deviation, Outgrown
from coopsim.live.follow import Follow
from coopsim.live.op_log import StepRecorder
from coopsim.live.op_runner import Ran
from coopsim.live.operands import Repeats, on_device, repeats
from coopsim.live.plan import Row
from coopsim.live.signatures import Signature
from coopsim.live.state import Context, LeftPlan, Spilling, State
from coopsim.record.observe import accumulation

_ADD, _ADD_IN_PLACE = accumulation.ADD, accumulation.ADD_IN_PLACE
_LEFT = object()  #: in place of an op's result: the step has left its plan before the op ran


class Following(State):
    """Follows the plan of a signature. It goes on to the plan of another one that is the same so far, or Spilling.

    follow: of the plan, from the middle of a step; None: from its start.
    """

    planned = True

    def __init__(self, context: Context, signature: Signature, follow: Follow | None = None) -> None:
        super().__init__(context)
        assert signature.plan is not None
        self.signature: Signature = signature
        self._follow = follow or Follow(signature.plan, context.values, context.storages)

    def take_over(self, before: Iterable[Ran]) -> bool:
        """Go on after ops that have run without the plan.

        False if they worked on other tensors (Follow.take_over), or if what has gone to the host finds no room.
        """
        self._context.room.by_plan = True
        values = self._context.values
        try:
            values.materialize(values.spilled.values)
        except torch.OutOfMemoryError:
            return False
        return self._follow.take_over(before)

    def begin(self) -> None:
        """Follow the plan from the next op on: by the observer, if there is one. In an arena, requests are placed."""
        context, follow = self._context, self._follow
        context.room.by_plan = True
        follow.begin(context.observer if context.observer is not None and context.observer.inside else None)
        if context.placed is not None:
            context.placed.follow(follow.plan, follow.state, follow.at)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op with the plan's actions before and after it, or leave the plan and run it in the next state."""
        follow = self._follow
        follow.fetch()
        at = follow.at
        row = follow.rows[at] if at < len(follow.rows) else None
        if follow.broken:
            self._leave(f"op {at - 1}, {follow.rows[at - 1].func}, {follow.broken}")
        elif row is not None and (
            func is row.func or (func is _ADD and row.func is _ADD_IN_PLACE and accumulation.adds_up(args, None))
        ):
            out = self._run(row, func, args, kwargs)
            if out is not _LEFT:
                return out
        elif not self._switch(func):
            self._leave(f"op {at}: {func}" + (f" instead of {row.func}" if row else " after the end"))
        return self.current.__torch_dispatch__(func, types, args, kwargs)

    def _run(self, row: Row, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the op that the plan has next. _LEFT if the step has left the plan instead, and the op has to run yet."""
        follow = self._follow
        try:
            if row.elements:
                check_elements(row, on_device(self._context.residency.device_type, (*args, *kwargs.values())))
            out = follow.run(row, args, kwargs)
        except Deviation as why:
            self._leave(f"op {follow.at}, {func}, {why}", outgrown=isinstance(why, Outgrown))
            return _LEFT
        except RuntimeError as error:
            again = not follow.started or repeats(func) is not Repeats.NEVER
            ran_out = isinstance(error, torch.OutOfMemoryError)
            if not again or not (ran_out or TRAP in str(error)):
                raise
            what = "runs out of memory" if ran_out else "reads other tensors"
            self._leave(f"op {follow.at}, {func}, {what}", ran_out=ran_out)
            return _LEFT
        follow.advance()
        self._count(out)
        if not follow.hand_over():
            self._leave(f"op {follow.at - 1}, {func}, {follow.broken}")
        return out

    def _switch(self, func: Any) -> bool:
        """Switch to the plan of a signature whose op log is the same so far, with `func` next. False: there is none."""
        context, now = self._context, self._follow
        if context.residency.copies.any_on_host():  # where they lie on the host is the present plan's
            return False
        context.residency.copies.wait_for_all()
        for other in context.signatures:
            if other is self.signature or other.plan is None or now.at >= len(other.op_log):
                continue
            if other.op_log[now.at].func is not func or not other.has(self.signature.op_log[: now.at]):
                continue
            follow = Follow(other.plan, context.values, context.storages)
            if follow.take_over(now.taken(), held=True):
                for tracked in now.storages.values():
                    if follow.storages.get(tracked.number) is not tracked:
                        tracked.number = -1  # it was of the plan that is left, and copies go by it
                self._go_on(Following(context, other, follow)).begin()
                return True
        return False

    def _leave(self, why: str, *, outgrown: bool = False, ran_out: bool = False) -> None:
        """Leave the plan, and go on without one. why: for the report."""
        self.stop()
        self._context.residency.copies.wait_for_all()
        left = LeftPlan(why, outgrown or self._follow.at < self.signature.decided, ran_out)
        self._go_on(Spilling(self._context, self.signature, left)).begin()

    def stop(self) -> None:
        """Stop following the plan, and take back what the observer knows."""
        if self._context.placed is not None:
            self._context.placed.end()
        self._follow.end()

    def conclude(self, *, failed: bool) -> None:
        """Leave the plan, if the step has ended before it."""
        if not failed and self._follow.at != len(self._follow.rows):
            self._leave("the step ended early")

    # -- access to bytes past the dispatcher -------------------------------------------------------------------------

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep a storage in place until the step is over, as the program knows its address."""
        self._follow.pin(storage)

    def materialize(self, storage: torch.UntypedStorage) -> None:
        """Bring back a storage, if it is evicted."""
        with self._follow.in_python(storage):
            super().materialize(storage)

    def in_python(self) -> AbstractContextManager[None]:
        """A context in which Python follows the plan."""
        return self._follow.in_python()


class Recording(State):
    """Records a step, by `recorder`, which runs its ops.

    candidates: signatures that the step may turn out to be of, the likeliest first; empty: it is recorded to its end.
    While there are some, it is *deciding*: once the sizes of its batch are known, and with them its signature, it goes
    on to Following or, where that has no plan, Spilling. If it begins as none of them, it is recorded to its end, too.
    """

    def __init__(self, context: Context, recorder: StepRecorder, candidates: Sequence[Signature] = ()) -> None:
        super().__init__(context)
        self.recorder, self._candidates = recorder, list(candidates)

    def begin(self) -> None:
        """Begin to record. LiveError if the program cannot be followed."""
        self._context.runner.keep_calls(bool(self._candidates))
        self.recorder.begin()
        if not self._candidates:
            self._record()

    def _record(self) -> None:
        """Go on to record all of the step. LiveError if the program cannot be followed."""
        self._candidates.clear()
        self._context.room.by_plan = False
        self._context.runner.keep_calls(False)
        self.recorder.commit()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op and record it; then decide, if that is open and possible."""
        out = self.recorder.__torch_dispatch__(func, types, args, kwargs)
        if self._candidates:
            op_log = self.recorder.op_log
            self._candidates = [one for one in self._candidates if one.has(op_log[-1:], len(op_log) - 1)]
            known = next((one for one in self._candidates if one.decided <= len(op_log)), None)
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
        if not following.take_over(entry.ran for entry in self.recorder.op_log):
            self._record()
        else:
            context.runner.keep_calls(False)  # what is freed with them has no place in the plan
            following.begin()
            self.recorder.end(learn=False)
            self._go_on(following)

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep a storage in place; no plan makes it again."""
        super().pin(storage)
        self.recorder.writers.located(storage)

    def end(self, *, learn: bool) -> None:
        """The step is over. learn: it went to its end, and can be planned."""
        self.recorder.end(learn=learn)


def check_elements(row: Row, given: Iterable[torch.Tensor]) -> None:
    """Raise Outgrown if an operand in `given` has more elements than in the step that the plan was made for."""
    if any(tensor.numel() > n for tensor, n in zip(given, row.elements, strict=False)):
        raise Outgrown("works on larger tensors")
