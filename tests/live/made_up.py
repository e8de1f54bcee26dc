"""Parts of a step on the CPU, of made-up storages and ops, for tests of what stands between a session and PyTorch."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from coopsim.live.cells import Call, Cell, Cells
from coopsim.live.host.area import HostArea
from coopsim.live.host.copies import Sent
from coopsim.live.ledger import LiveLedger
from coopsim.live.op_runner import OpRunner, Ran
from coopsim.live.residency import Residency
from coopsim.live.room import Room
from coopsim.live.state import Context
from coopsim.live.values import Values
from coopsim.observe import effects

KIB = 1024
ATEN = torch.ops.aten


class Cap:
    """A limit that a step may raise `raises` times, by nothing in particular. given: what it was raised to."""

    fragments, holds = False, True

    def __init__(self, raises: int = 0) -> None:
        self._raises = raises
        self.given: list[int | None] = []

    def higher(self, most: int | None = None) -> bool:
        self.given.append(most)
        return len(self.given) <= self._raises

    def set(self) -> None: ...

    def lift(self) -> None: ...

    def end(self) -> None: ...

    def exceeded(self, _limit: int) -> bool:
        return False

    def hole(self, _ways: Any) -> None:
        return None


@dataclass
class Parts:
    """The context of a step, and short ways to what a test does with it."""

    context: Context

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an op as a step without a plan does."""
        return self.ran(func, *args, **kwargs).out

    def ran(self, func: Any, *args: Any, **kwargs: Any) -> Ran:
        with effects.on("cpu"):
            return self.context.runner.run(func, args, kwargs, lambda: func(*args, **kwargs))

    def cell(self, tensor: torch.Tensor) -> Cell:
        found = self.context.cells.of_tensor(tensor)
        assert found is not None
        return found

    def evict(self, tensor: torch.Tensor) -> None:
        cell = self.cell(tensor)
        self.context.residency.evict((cell, cell.version))

    def gone(self, *tensors: torch.Tensor) -> list[bool]:
        return [self.cell(tensor).gone for tensor in tensors]

    def bring(self, *tensors: torch.Tensor) -> None:
        self.context.values.bring([(self.cell(tensor), self.cell(tensor).version) for tensor in tensors])


def parts(
    limit: int | None = None, cap: Any = None, *, hard: bool = True, sends: int = 0, kinds: Collection[Any] = ()
) -> Parts:
    """A step on the CPU, of which no op has run."""
    residency, cells = Residency("cpu", LiveLedger(), HostArea("cpu"), Sent()), Cells()
    room = Room(residency, cells, limit, None, cap, hard=hard, sends=sends)
    values = Values(residency, room)
    runner = OpRunner(residency, cells, room, values, None)
    return Parts(Context(residency, cells, room, values, runner, list(kinds), None, None))


def made(step: Parts, nbytes: int, cost: int = 1, reads: Iterable[Cell] = ()) -> Cell:
    """A cell that an op of the step has made, from these. The storage lives as long as the step's cells."""
    storage = torch.UntypedStorage(nbytes)
    cell = step.context.cells.of(storage)
    call = Call(None, (), {}, reads=[(one, one.version) for one in reads])
    call.has_made([cell], [(cell, 0)], cost)
    step.context.cells.add_made([cell])
    step.context.residency.ledger.of_storage(storage)
    KEPT.append(storage)
    return cell


KEPT: list[torch.UntypedStorage] = []  #: what the program would refer to


class Blocks:
    """An arena's blocks, of which `missing` bytes have to go. taken: what was moved."""

    def __init__(self, missing: Callable[[], int], cheapest: Callable[[Any], list[int]], moves: Any = ()) -> None:
        self._missing, self.cheapest, self._moves = missing, cheapest, list(moves)
        self.taken: list[int] = []

    @property
    def missing(self) -> int:
        return self._missing()

    def offset(self, storage: torch.UntypedStorage) -> int:
        return super(torch.UntypedStorage, storage).data_ptr()

    def moves(self, movable: Collection[int]) -> list[tuple[int, int]]:
        return [(at, to) for at, to in self._moves if at in movable]

    def at(self, offset: int) -> AbstractContextManager[None]:
        self.taken.append(offset)
        return nullcontext()
