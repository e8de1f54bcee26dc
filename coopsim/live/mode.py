"""The dispatch mode of a running step: it hands every op to the step's state, and watches what no op shows."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from coopsim.base.types import CoopsimError
from coopsim.live import observer as observers
from coopsim.live.errors import DoesNotFit, LiveError
from coopsim.live.state import Context, State
from coopsim.live.unseen import Unseen
from coopsim.record.observe.torch_private import TorchDispatchMode, mode_stack, pop_dispatch_mode

#: Marks for PyTorch's profiler, which read and make no data. A DataLoader makes some, and not at every step.
_MARKS = {
    torch.ops.profiler._record_function_enter.default,
    torch.ops.profiler._record_function_enter_new.default,
    torch.ops.profiler._record_function_exit.default,
    torch.ops.profiler._record_function_exit._RecordFunction,
}


_TRIES = 3  #: of an act that is interrupted; a user who goes on to press Ctrl-C means it


class StepMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs the ops of one step from `enter` to `undo`. state: in which the step begins."""

    def __init__(self, context: Context, state: State) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._context, self._state = context, state
        self.failure: LiveError | None = None
        self._raised: BaseException | None = None
        self._hook: Callable[[Any], object] = sys.unraisablehook
        self._unseen = Unseen(context, lambda: self.state)

    @property
    def state(self) -> State:
        """The state that the step is in."""
        self._state = self._state.current
        return self._state

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Let torch not wrap `__torch_dispatch__` for torch.compile, which costs time in every op."""
        return False

    def enter(self) -> None:
        """Intercept the ops of the program; the state has not begun yet."""
        sys.unraisablehook = self._was_raised
        self._unseen.watch()
        super().__enter__()  # type: ignore[no-untyped-call]
        if self._context.observer is not None:
            self._context.observer.enter(self._context.residency.device_type)

    def _was_raised(self, unraisable: Any) -> None:
        """Keep what was raised where nobody could catch it, in a callback of the observer or when an object went."""
        observer, error = self._context.observer, unraisable.exc_value
        own = observer is not None and observer.has_raised(unraisable)
        if isinstance(error, KeyboardInterrupt) or (own and not isinstance(error, (torch.OutOfMemoryError, LiveError))):
            self._raised = self._raised or error
            if observer is not None:
                observer.state[observers.State.RAISED] = 1
        elif not own:  # where there was no room, Python goes on, and will find that itself
            self._hook(unraisable)

    def reraise(self) -> None:
        """Raise what nobody could catch where it was raised."""
        raised, self._raised = self._raised, None
        if raised is not None:
            if self._context.observer is not None:
                self._context.observer.state[observers.State.RAISED] = 0
            raise raised

    def unhook(self) -> None:
        """Let what is raised where nobody can catch it go to Python again."""
        if sys.unraisablehook == self._was_raised:
            sys.unraisablehook = self._hook

    def undo(self) -> None:
        """Undo `enter`, as far as that is not done, but for the hook: Ctrl-C may yet come as an object goes."""
        observer = self._context.observer
        if observer is not None and observer.inside:
            observer.exit()
        while any(mode is self for mode in mode_stack()):
            try:
                super().__exit__(None, None, None)  # type: ignore[no-untyped-call]
            except IndexError:  # it was interrupted, and has done its part but for this
                pop_dispatch_mode(None)
        self._unseen.forget()

    def bring_all_back(self, *, failed: bool) -> None:
        """Bring back what the step has evicted, as far as there is room. failed: it need not be all."""
        with contextlib.suppress(torch.OutOfMemoryError) if failed else contextlib.nullcontext():
            self._context.values.finish()
            self._context.storages.let_go()

    def forget(self) -> None:
        """Leave the step in a forked process, without touching the device; nothing is restored or learned."""
        self.undo()
        self.state.end(learn=False)
        self.unhook()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an op. PyTorch calls this in place of every op while the step runs.

        `adds_up` and the recorder look at the stack, to tell autograd's ops from those of Python code: between them and
        autograd's engine no frame may be of another name than this one's, so the states have methods of that name.
        """
        if func in _MARKS:
            return func(*args, **(kwargs or {}))
        if self._raised is not None:
            self.reraise()
        try:
            return self.state.__torch_dispatch__(func, types, args, kwargs or {})
        except LiveError as error:
            self.failure = error
            raise
        except torch.OutOfMemoryError as error:
            if not self.state.planned:
                why = str(error).removeprefix("CUDA out of memory. ").partition(". ")[0].splitlines() or [""]
                self.failure = DoesNotFit(f"{func}: {why[0] or 'out of memory'}, and nothing more can go to the host")
            raise


class Exits:
    """What has to be done as a step ends. Each act may be repeated."""

    def __init__(self) -> None:
        self._acts: list[Callable[[], object]] = []

    def add(self, *acts: Callable[[], object]) -> None:
        """Let these be done, the last of them first, before all that were added earlier."""
        self._acts += acts

    def close(self) -> None:
        """Do all, each to its end, whatever another raises or interrupts; then raise the first that was raised.

        It can be called again, if it was interrupted itself.
        """
        failure, tries = None, 0
        while self._acts:
            try:
                self._acts[-1]()
            except BaseException as error:
                failure, tries = error if failure is None else failure, tries + 1
                if not isinstance(error, (CoopsimError, RuntimeError)) and tries < _TRIES:
                    continue
            self._acts.pop()
            tries = 0
        if failure is not None:
            raise failure
