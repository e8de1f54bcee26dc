"""The kinds of step of this process to a file, and from one: there, ops and types go by their names."""

from collections.abc import Sequence
from typing import Any

import torch

from coopsim.live import plan_file
from coopsim.live.device import GRANULE
from coopsim.live.errors import LiveError
from coopsim.live.kinds import Kind
from coopsim.live.plan import Entry
from coopsim.live.plan_file import Header, Line, PlanFile, Planned
from coopsim.live.plan_state import PlanState
from coopsim.live.tape import Shapes, Taped
from coopsim.observe.torch_private import OpOverload
from coopsim.policies import Policy
from coopsim.text import human
from coopsim.trace.measure import peak_bytes

_DEFAULT = "foresight-offline"


def header(
    limit: int | None, policy: Policy | str, others_bytes: int, kind: str, command: str, *, arena: bool
) -> Header:
    """Of a file that this process writes. limit None: its steps were only recorded."""
    name = policy if isinstance(policy, str) else policy.name
    return Header(limit or 0, name, others_bytes, torch.__version__, kind, command, arena=arena)


def save(kinds: Sequence[Kind], path: str, head: Header) -> None:
    """Write them."""
    plan_file.save(PlanFile(head, [_planned(kind) for kind in kinds]), path)


def _planned(kind: Kind) -> Planned:
    state, lines = kind.state, lines_of(kind.tape)
    return Planned(kind.trace, lines, kind.decided, kind.first, state.schedule, state.why, state.margin)


class Loaded:
    """A file of plans. LiveError for one that is none, or is not for what was asked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = plan_file.load(path)
        self.others_bytes = self._file.header.others_bytes
        if not self._file.header.budget_bytes:
            raise LiveError(f"{path} has steps that were recorded, and no plan")

    def limit(self, asked: int | None, *, share: bool) -> int:
        """The budget. asked: None where nobody did."""
        own = self._file.header.budget_bytes
        if share or (asked is not None and asked < own):
            what = "a share" if share or asked is None else human(asked)
            raise LiveError(f"{self._path} is a plan for {human(own)}, and the budget is {what}; leave --memory out")
        return asked or own

    def policy(self, asked: Policy | str) -> str:
        """The plan's, which serves for steps of other kinds, too."""
        own = self._file.header.policy
        if asked not in (_DEFAULT, own):
            raise LiveError(f"{self._path} is a plan by {own}; leave --policy out")
        return own

    def kinds(self, device: str) -> list[Kind]:
        """Those that it has, with their schedules."""
        if device != self._file.header.device:
            raise LiveError(f"{self._path} is a plan for {self._file.header.device}, and this program is on {device}")
        return [self._kind(planned) for planned in self._file.kinds]

    def _kind(self, planned: Planned) -> Kind:
        tape = tape_of(planned.tape, self._path)
        peak = peak_bytes(planned.trace, GRANULE)
        state = PlanState(planned.schedule, margin=planned.margin, why=planned.why)
        return Kind(planned.trace, tape, planned.decided, peak, planned.first, state)


def lines_of(tape: Sequence[Entry]) -> list[Line]:
    """Of a recorded step. Which parameters were among the operands says nothing to another process."""

    def plain(shapes: Shapes) -> list[list[Any]]:
        return [[*sizes, str(dtype).removeprefix("torch.")] for *sizes, dtype in shapes]

    return [
        Line(str(t.func), [plain(t.shapes[0]), plain(t.shapes[1])], t.inputs, t.results, t.op, t.mutable) for t in tape
    ]


def tape_of(lines: list[Line], file: str) -> list[Taped]:
    """In this process. LiveError for an op or a type that it does not have. file: it is said there."""

    def exact(shapes: list[list[Any]]) -> Shapes:
        return tuple((*sizes, _dtype(name, file)) for *sizes, name in shapes)

    found: dict[str, Any] = {}
    for line in lines:
        if line.func not in found:
            found[line.func] = _op(line.func, file)
    return [
        Taped(
            found[line.func],
            (exact(line.shapes[0]), exact(line.shapes[1]), None),
            line.inputs,
            line.results,
            line.op,
            line.mutable,
        )
        for line in lines
    ]


def _op(name: str, file: str) -> Any:
    try:
        namespace, packet, overload = name.split(".")
        found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        if isinstance(found, OpOverload):
            return found
    except (AttributeError, RuntimeError, ValueError):
        pass
    raise LiveError(f"{file} is a plan of another program, or torch: here is no op {name}")


def _dtype(name: str, file: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise LiveError(f"{file} is a plan of another torch: here is no type {name}")
    return found
