"""What the states of a running step have in common: it is being decided, recorded, followed by plan, or spilling.

A step that spills has no plan: what finds no room goes to the host, and comes back when an op asks for it.

The observer is compiled code that follows plans on Python's behalf.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from coopsim.live.arena.placed import Placed
from coopsim.live.observer import Observer
from coopsim.live.op_runner import OpRunner
from coopsim.live.operands import on_device
from coopsim.live.residency import Residency
from coopsim.live.room import Room
from coopsim.live.signatures import Signature
from coopsim.live.tracked import TrackedStorages
from coopsim.live.values import Values
from coopsim.record.observe.torch_private import DisableTorchDispatch

S = TypeVar("S", bound="State")


@dataclass(frozen=True, eq=False)
class Context:
    """What all states of one step share.

    signatures: all that are known, to whose plans the step may switch. observer: None: Python follows plans alone.
    placed: places requests at their planned addresses; None without an arena.
    """

    residency: Residency
    storages: TrackedStorages
    room: Room
    values: Values
    runner: OpRunner
    signatures: Sequence[Signature]
    observer: Observer | None
    placed: Placed | None


@dataclass(frozen=True)
class LeftPlan:
    """Why a step has left its plan, for the report. ran_out: the device had no room.

    decide: its first ops would have told that it is not of the plan's signature, or its data are larger.
    """

    why: str
    decide: bool = False
    ran_out: bool = False


class State:
    """What a step goes by, from some op of it on.

    Each op runs in the state that `current` gives; a state that has gone on to another hands its ops over to that.
    """

    signature: Signature | None = None  #: that the step is of, as far as it is known
    planned = False  #: whether the step follows a plan

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next: State | None = None

    @property
    def current(self) -> "State":
        """The state that this one has gone on to; itself if it has not."""
        state: State = self
        while state._next is not None:
            state = state._next
        return state

    def begin(self) -> None:
        """Begin the step in this state. LiveError if the program cannot be followed."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op. It has this name for what looks at the stack (StepMode.__torch_dispatch__)."""
        raise NotImplementedError

    def stop(self) -> None:
        """The last op has run."""

    def conclude(self, *, failed: bool) -> None:
        """Leave behind what the step leaves, before all that was evicted comes back. failed: it ended with an error."""

    def end(self, *, learn: bool) -> None:
        """The step is over. learn: it went to its end."""

    # -- access to bytes past the dispatcher -------------------------------------------------------------------------

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep a storage with bytes in place until the step is over, as the program knows its address."""
        self._context.storages.of(storage).pinned = True

    def materialize(self, storage: torch.UntypedStorage) -> None:
        """Bring back a storage, if it is evicted."""
        tracked = self._context.residency.evicted_at(storage)
        if tracked is not None:
            with DisableTorchDispatch():
                self._context.values.materialize([(tracked, tracked.version)])

    def in_python(self) -> AbstractContextManager[None]:
        """A context in which Python goes on in place of the observer."""
        return nullcontext()

    # -- for the states ----------------------------------------------------------------------------------------------

    def _go_on(self, state: S) -> S:
        """Go on to another state, and return it."""
        self._next = state
        return state

    def _count(self, out: Any) -> None:
        """On the CPU there is no allocator to ask: count an op's results."""
        residency = self._context.residency
        if residency.device_type == "cpu":
            for tensor in on_device("cpu", (out,)):
                residency.ledger.of(tensor)


class Spilling(State):
    """Runs each op by itself (op_runner.py), with room made for it (room.py), to the end of the step.

    signature: that the step is of, or was taken to be of. left: why it has left its plan; None if the signature has
    none.
    """

    def __init__(self, context: Context, signature: Signature, left: LeftPlan | None = None) -> None:
        super().__init__(context)
        self.signature, self.left = signature, left

    def begin(self) -> None:
        """Go on without a plan; what one has evicted until now is made again."""
        context = self._context
        context.room.by_plan = False
        context.runner.keep_calls(False)
        context.values.leave_plan()
        context.storages.let_go()

    def __torch_dispatch__(self, func: Any, _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op, with its operands brought back and room made for its results."""
        out = self._context.runner.run(func, args, kwargs, lambda: func(*args, **kwargs))[0]
        self._count(out)
        return out
