"""Parts of a step on the CPU, of made-up storages and ops, for tests of what stands between a session and PyTorch."""

from collections.abc import Callable, Collection, Iterable, Iterator
from ctypes import c_int64
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from coopsim.live.actions import Action, Kind, Recompute
from coopsim.live.copies import HostArea
from coopsim.live.device import LiveLedger
from coopsim.live.op_runner import OpRunner, Ran
from coopsim.live.plan import Row
from coopsim.live.residency import Residency
from coopsim.live.room import Room
from coopsim.live.signatures import Candidate, PlanState, Signature
from coopsim.live.spilled import Spilled
from coopsim.live.state import Context
from coopsim.live.tracked import Call, TrackedStorage, TrackedStorages
from coopsim.live.values import Values
from coopsim.record.observe import effects

KIB = 1024
ATEN = torch.ops.aten


class Cap:
    """A limit that a step may raise `raises` times, by nothing in particular. given: what it was raised to."""

    holds = True

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


@dataclass
class Parts:
    """The context of a step, and short ways to what a test does with it."""

    context: Context

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an op as a step without a plan does."""
        return self.ran(func, *args, **kwargs)[0]

    def ran(self, func: Any, *args: Any, **kwargs: Any) -> tuple[Any, Ran]:
        with effects.on("cpu"):
            return self.context.runner.run(func, args, kwargs, lambda: func(*args, **kwargs))

    def tracked(self, tensor: torch.Tensor) -> TrackedStorage:
        found = self.context.storages.of_tensor(tensor)
        assert found is not None
        return found

    def evict(self, tensor: torch.Tensor) -> None:
        tracked = self.tracked(tensor)
        self.context.residency.evict((tracked, tracked.version))

    def evicted(self, *tensors: torch.Tensor) -> list[bool]:
        return [self.tracked(tensor).evicted for tensor in tensors]

    def materialize(self, *tensors: torch.Tensor) -> None:
        self.context.values.materialize([(self.tracked(tensor), self.tracked(tensor).version) for tensor in tensors])


def parts(
    limit: int | None = None,
    cap: Any = None,
    *,
    hard: bool = True,
    host: int | None = None,
    signatures: Collection[Any] = (),
) -> Parts:
    """A step on the CPU, of which no op has run."""
    residency, storages = Residency("cpu", LiveLedger(), HostArea("cpu"), None), TrackedStorages()
    spilled = Spilled(residency, storages, (limit or 0) / 20_000, host)
    room = Room(residency, spilled, limit, None, cap, hard=hard, spills=True, ooms=c_int64())
    values = Values(room)
    runner = OpRunner(values, storages, None)
    return Parts(Context(residency, storages, room, values, runner, list(signatures), None, None))


def made(step: Parts, nbytes: int, used: int = 0, reads: Iterable[TrackedStorage] = ()) -> TrackedStorage:
    """A storage that an op of the step has made, from these, and used at this time; it lives on."""
    storage = torch.UntypedStorage(nbytes)
    tracked = step.context.storages.of(storage)
    call = Call(None, (), {}, reads=[(one, one.version) for one in reads])
    call.has_made([tracked], [(tracked, 0)])
    tracked.touched = used
    step.context.residency.ledger.of_storage(storage)
    KEPT.append(storage)
    return tracked


KEPT: list[torch.UntypedStorage] = []  #: what the program would refer to


class Blocks:
    """An arena of the addresses from `base` on, full of blocks at these offsets, with a request that `wanted` bytes."""

    def __init__(self, base: int, size: int, blocks: list[tuple[int, int]], wanted: int) -> None:
        self._blocks = blocks
        self.stats = SimpleNamespace(base=base, size=size, wanted=wanted, outside=0, allocated=0)

    def layout(self) -> list[tuple[int, int, int]]:
        return [(at, nbytes, 0) for at, nbytes in sorted(self._blocks)]


@dataclass
class Op:
    """A dispatched op of a made-up step (plan.Entry)."""

    func: Any
    inputs: list[int]
    results: list[int]
    op: int = -1
    shapes: Any = ((), (), None)
    mutable: bool = False
    stream: int = 0


def row(op: Op, **what: Any) -> Row:
    """What a plan that watches all storages does at an op (plan.Row), besides what is given."""
    own: dict[str, Any] = {"before": [], "copies": [], "keep": [], "call": op.op >= 0, "elements": []}
    own |= {"look": list(enumerate(op.inputs)), "find": list(enumerate(op.results)), "makes": []}
    if op.op >= 0:
        own["makes"] = [(s, 0) for s in op.results if s not in op.inputs]
    return Row(op, **own | what)


def plan(rows: list[Row], watched: Collection[int]) -> Any:
    """A plan of these rows, as Follow takes it (plan.Plan), in which no op changes a storage in place."""
    ops = [one.entry for one in rows if one.entry.op >= 0]
    program = SimpleNamespace(reads=[[(s, 0) for s in op.inputs] for op in ops], writes=[one.makes for one in rows])
    unused: dict[str, Any] = {"several_streams": False, "has_place": lambda *_: True}
    mutates: list[set[int]] = [set() for _ in ops]
    return SimpleNamespace(rows=rows, watched=set(watched), mutates=mutates, program=program, **unused)


MUL, ADD, NEG, SUB = ATEN.mul.Scalar, ATEN.add.Scalar, ATEN.neg.default, ATEN.sub.Tensor


def example(last: Any = SUB) -> Any:
    """A plan of a = 2 x, b = a + 1, c = -x, d = b - a, by which `a` is evicted before c and made again before d."""
    a, b, c, d = Op(MUL, [0], [1], 0), Op(ADD, [1], [2], 1), Op(NEG, [0], [3], 2), Op(last, [2, 1], [4], 3)
    rows = [row(a), row(b), row(c, before=[Action(Kind.EVICT, (1, 0))]), row(d, before=[Recompute(0, ((1, 0),))])]
    return plan(rows, range(5))


def calls(x: torch.Tensor, run: Callable[..., Any]) -> Iterator[Any]:
    """Run the ops of the example by `run(func, *args)`, and give the result of each."""
    yield (a := run(MUL, x, 2))
    yield (b := run(ADD, a, 1))
    yield run(NEG, x)
    yield run(SUB, b, a)


def signature(made: Any, decided: int = 1) -> Signature:
    """A step signature with this plan."""
    op_log = [one.entry for one in made.rows]
    state = PlanState("", Candidate(0, None), made)  # type: ignore[arg-type]
    return Signature(None, op_log, decided, state=state)  # type: ignore[arg-type]
