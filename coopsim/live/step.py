"""The dispatch mode of a running step: it hands every op to the plan, the recorder, or eviction on demand.

Steps that dispatch the same ops on the same sizes are of one kind (kinds.py), which may have a plan.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import torch

from coopsim.live.cells import Cell, can_start_again, on_device
from coopsim.live.errors import DoesNotFit, LiveError
from coopsim.live.follow import Deviation, Follow, Outgrown
from coopsim.live.kinds import Kind
from coopsim.live.observer import Observer
from coopsim.live.on_demand import OnDemand
from coopsim.live.plan import Row
from coopsim.live.tape import TapeRecorder
from coopsim.live.trap import TRAP
from coopsim.live.unseen import Unseen
from coopsim.live.values import Values
from coopsim.observe import accumulation
from coopsim.observe.torch_private import DisableTorchDispatch, TorchDispatchMode, dispatch_modes, pop_dispatch_mode

#: Marks for PyTorch's profiler, which read and make no data. A DataLoader makes some, and not at every step.
_MARKS = {
    torch.ops.profiler._record_function_enter.default,
    torch.ops.profiler._record_function_enter_new.default,
    torch.ops.profiler._record_function_exit.default,
    torch.ops.profiler._record_function_exit._RecordFunction,
}
_ADD, _ADD_IN_PLACE = accumulation.ADD, accumulation.ADD_IN_PLACE
_LEFT = object()  #: in place of an op's result: the step has left its plan before the op ran


class Step(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs the ops of one step: by the plan of `kind`, or recorded by `recorder`, or, with neither, on demand.

    undecided: kinds that the step may turn out to be of, while it is recorded. others: all known kinds, to whose plans
    the step may switch. observer: compiled code that follows plans; None: Python does it alone.
    """

    def __init__(
        self,
        values: Values,
        on_demand: OnDemand,
        recorder: TapeRecorder | None,
        kind: Kind | None,
        undecided: list[Kind],
        others: list[Kind],
        observer: Observer | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values, self.on_demand, self.recorder = values, on_demand, recorder
        self.kind, self._undecided, self._others = kind, undecided, others
        self._observer = observer
        self.follow = Follow(kind.plan, values, kind.stays, on_demand.cell_of) if kind and kind.plan else None
        self.deviated = ""
        self.outgrown = False  #: whether it left its plan because its data are larger
        self.ran_out = False  #: whether it left its plan because the device had no room
        self.failure: LiveError | None = None
        self.planned = on_demand.by_plan = self.follow is not None
        on_demand.undecided = bool(undecided)
        if on_demand.hole is not None:
            on_demand.hole.planned = self._planned
        self._counts = values.kind == "cpu"  # there is no allocator to ask
        self._unseen = Unseen(
            self._address_is_known, self._bring_back, self._is_located, self._while_copied, self._is_away
        )

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Let torch not wrap `__torch_dispatch__` for torch.compile, which costs time in every op."""
        return False

    def __enter__(self) -> Self:
        self._unseen.watch()
        super().__enter__()  # type: ignore[no-untyped-call]
        if self._observer is not None and not self._observer.enter():
            self._observer = None
        if self.follow is not None:
            if self._begins(self.follow):
                self.follow.begin(self._observer)
            else:
                self.ran_out = True
                self._leave_plan("no room for what is there as it begins")
        return self

    def __exit__(self, *error: object) -> None:
        if self.follow is not None:
            self.follow.end()
        if self._observer is not None:
            self._observer.leave()
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._unseen.forget()
        if self.follow is not None and error[0] is None and self.follow.at != len(self.follow.rows):
            self._leave_plan("the step ended early")
        elif self.follow is not None and self.values.goes_on:
            self.follow.leave()
        with contextlib.suppress(torch.OutOfMemoryError) if error[0] is not None else contextlib.nullcontext():
            try:
                self.values.finish([*self.on_demand.cells, *(self.follow.cells.values() if self.follow else ())])
            finally:
                self.on_demand.end()

    def storage(self, number: int) -> Callable[[], Any] | None:
        """A weak reference to a storage that the step's plan watched, by number of the trace; None if there is none."""
        cell = self.follow.cells.get(number) if self.follow is not None else None
        return cell.ref if cell is not None else None

    def forget(self) -> None:
        """Leave the step in a forked process, without touching the device; nothing is restored or learned."""
        if self._observer is not None:
            self._observer.leave()
        while dispatch_modes():  # none, if another thread has forked
            if pop_dispatch_mode(None) is self:
                break
        if self.recorder is not None:
            self.recorder.end(learn=False)
        self._unseen.forget()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an op. PyTorch calls this in place of every op while the step runs.

        `adds_up` and the recorder look at the stack, to tell autograd's ops from those of Python code: between them and
        autograd's engine no frame may be of another name than this one's, so both are called from here.
        """
        kwargs = kwargs or {}
        if func in _MARKS:
            return func(*args, **kwargs)
        while (follow := self.follow) is not None:
            follow.fetch()
            at = follow.at
            if follow.broken:
                self._leave_plan(f"op {at - 1}, {follow.rows[at - 1].func}, {follow.broken}")
                break
            row = follow.rows[at] if at < len(follow.rows) else None
            if row is not None and (
                func is row.func or (func is _ADD and row.func is _ADD_IN_PLACE and accumulation.adds_up(args, None))
            ):
                out = self._run_planned(follow, row, func, args, kwargs)
                if out is not _LEFT:
                    return out
            elif not self._switch(func):
                self._leave_plan(f"op {at}: {func}" + (f" instead of {row.func}" if row else " after the end"))
        try:
            if self.recorder is None:
                out = self.on_demand.run(func, args, kwargs, lambda: func(*args, **kwargs))
            else:  # called from here: see the docstring
                out = self.recorder.__torch_dispatch__(func, types, args, kwargs)
                if self._undecided:
                    self._decide(self.recorder)
                return out
        except LiveError as error:
            self.failure = error
            raise
        except torch.OutOfMemoryError as error:
            self.failure = DoesNotFit(f"{func}: {str(error).split('. ')[1]}, and nothing more can be evicted")
            raise
        if self._counts:
            self._count(out)
        return out

    def _run_planned(self, follow: Follow, row: Row, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the op that the plan has next. _LEFT if the step has left the plan instead, and the op has to run yet."""
        try:
            if row.elements:
                follow.check_elements(row, on_device(self.values.kind, (*args, *kwargs.values())))
            if not row.idle:
                out = follow.run(row, args, kwargs)
            else:
                if row.entry.mutable:
                    follow.check_changed(row, on_device(self.values.kind, (*args, *kwargs.values())))
                follow.started = True
                out = self.values.attempt(row.func, lambda: row.func(*args, **kwargs), ())
        except LiveError as error:
            self.failure = error
            raise
        except Deviation as why:
            self.outgrown |= isinstance(why, Outgrown)
            self._leave_plan(f"op {follow.at}, {func}, {why}")
            return _LEFT
        except (RuntimeError, torch.OutOfMemoryError) as error:
            again = not follow.started or can_start_again(func)
            if not again or not (_ran_out(error) or TRAP in str(error)):
                raise
            self.ran_out = _ran_out(error)
            what = "runs out of memory" if self.ran_out else "reads other tensors"
            self._leave_plan(f"op {follow.at}, {func}, {what}")
            return _LEFT
        follow.at += 1
        if self._counts:
            self._count(out)
        if not follow.hand_over():
            self._leave_plan(f"op {follow.at - 1}, {func}, {follow.broken}")
        return out

    def _count(self, out: Any) -> None:
        for tensor in on_device(self.values.kind, (out,)):
            self.values.ledger.of(tensor)

    # -- which kind of step is it? -----------------------------------------------------------------------------------

    def _decide(self, recorder: TapeRecorder) -> None:
        """Decide which kind the step is of, as soon as the sizes of its batch are known.

        If it begins as a known kind does, follow its plan, or run it on demand; else go on recording.
        """
        tape = recorder.tape
        self._undecided = [kind for kind in self._undecided if kind.has(tape[-1:], len(tape) - 1)]
        if not self._undecided:
            self.on_demand.undecided = False
            recorder.commit()
            return
        known = next((kind for kind in self._undecided if kind.decided <= len(tape)), None)
        if known is None:
            return
        self._undecided, self.on_demand.undecided = [], False
        follow = Follow(known.plan, self.values, known.stays, self.on_demand.cell_of) if known.plan else None
        if follow is not None:
            if not self._begins(follow):
                self.kind, self.ran_out = known, True
            if self.ran_out or not follow.take_over(taped.cells for taped in tape):
                self.on_demand.by_plan = False
                recorder.commit()
                return
            follow.begin(self._observer)
        recorder.end(learn=False)
        if follow is None and self.values.placed is not None:
            self.values.placed.end()
        self.recorder, self.kind, self.follow, self.planned = None, known, follow, follow is not None
        self.on_demand.by_plan = self.planned

    def _begins(self, follow: Follow) -> bool:
        """Bring what is on the host to where a plan begins. False if there is no room for what comes back."""
        self.on_demand.by_plan = True  # nothing is sent for it
        try:
            self.values.offloaded.begin(follow.places)
        except torch.OutOfMemoryError:
            return False
        return True

    def _switch(self, func: Any) -> bool:
        """Switch to the plan of a kind whose tape is the same so far, and has `func` next. False if there is none."""
        assert self.follow is not None
        assert self.kind is not None
        if self.values.offloaded.copies.away():  # where they lie on the host is the present plan's
            return False
        self.values.offloaded.copies.wait_for_all()
        at = self.follow.at
        for other in self._others:
            if other is self.kind or other.plan is None or not (other.ready and other.has_op(at, func)):
                continue
            if self.kind.common(other) < at or other.plan.away != self.follow.plan.away:
                continue
            follow = Follow(other.plan, self.values, other.stays)
            if follow.take_over(self.follow.taken(), held=True):
                follow.begin(self._observer)
                self.kind, self.follow = other, follow
                return True
        return False

    def _leave_plan(self, why: str) -> None:
        """Leave the plan, and let eviction on demand go on with its cells. why: for the report."""
        assert self.follow is not None
        self.deviated = self.deviated or why
        self.follow.end()
        self.values.offloaded.copies.wait_for_all()
        self.on_demand.adopt(self.follow.cells.values())
        self.follow, self.planned, self.on_demand.by_plan = None, False, False

    def _planned(self) -> Iterable[Cell]:
        follow = self.follow
        return follow.cells.values() if follow is not None and follow.observed is None else ()

    def _address_is_known(self, tensor: torch.Tensor) -> None:
        """Restore a tensor whose address the program asks for, and keep it in place until the step is over."""
        if tensor.device.type != self.values.kind or tensor.layout is not torch.strided:
            return
        self._bring_back(tensor)
        if self.follow is not None:
            self.follow.pin(tensor)
        elif (cell := self.on_demand.cell(tensor)) is not None:
            cell.pinned = True

    def _bring_back(self, tensor: torch.Tensor) -> None:
        if tensor.device.type == self.values.kind and tensor.layout is torch.strided:
            self._bring_storage(tensor.untyped_storage())

    def _bring_storage(self, storage: torch.UntypedStorage) -> None:
        observed = self.follow.observed if self.follow is not None else None
        if observed is not None:
            if observed.has_emptied(storage):
                assert self.follow is not None
                self.follow.fetch()
                self._bring_storage(storage)
                self.follow.hand_over()
            return
        cell = self.values.gone.get(storage._cdata)
        if cell is not None and cell.ref() is storage:
            with DisableTorchDispatch():
                self.values.bring([(cell, cell.version)])

    def _is_located(self, storage: torch.UntypedStorage) -> None:
        """Bring back a storage that is evicted, which on the CPU is then read where it is."""
        cell = self.values.gone.get(storage._cdata)
        self._bring_storage(storage)
        if cell is not None and self.values.kind == "cpu":
            cell.pinned = True

    @contextlib.contextmanager
    def _while_copied(self, storage: torch.UntypedStorage) -> Iterator[None]:
        """Keep a storage in place once it is back: a copy is several ops, of which some do not name it as a tensor."""
        if self.follow is not None:
            self.follow.fetch()
        self._bring_storage(storage)
        cell = self.follow.cell_of(storage) if self.follow is not None else self.on_demand.known(storage)
        pinned = cell.pinned if cell is not None else False
        if cell is not None:
            cell.pinned = True
        try:
            yield
        finally:
            if cell is not None:
                cell.pinned = pinned
            if self.follow is not None:
                self.follow.hand_over()

    def _is_away(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage on a GPU is evicted, by Python."""
        return self.values.kind == "cuda" and storage._cdata in self.values.gone


def _ran_out(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError)
