"""Writes the kinds of step of this process to plan files, and reads them. Files name ops and types.

A kind is a recorded step that stands for all that dispatch the same ops on the same sizes (kinds.py).
"""

from collections.abc import Sequence
from typing import Any

import torch

from coopsim.live import plan_file
from coopsim.live.device import GRANULE, card
from coopsim.live.errors import LiveError
from coopsim.live.host.hosting import Hosting
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
    limit: int | None,
    policy: Policy | str,
    others_bytes: int,
    kind: str,
    command: str,
    *,
    arena: bool,
    hosting: Hosting | None,
) -> Header:
    """The header of a plan file that this process writes.

    limit: the budget in bytes; None: steps were only recorded. kind: of the device, "cuda" or "cpu". The other
    arguments are fields of Header.
    """
    name = policy if isinstance(policy, str) else policy.name
    return Header(limit or 0, name, others_bytes, torch.__version__, kind, command, arena=arena, hosting=hosting)


def save(kinds: Sequence[Kind], path: str, head: Header) -> None:
    """Write kinds of step and their schedules to a plan file, whole or not at all."""
    plan_file.save(PlanFile(head, [_planned(kind) for kind in kinds]), path)


def _planned(kind: Kind) -> Planned:
    state, lines = kind.state, _lines_of(kind.tape)
    return Planned(kind.trace, lines, kind.decided, kind.first, state.schedule, state.why, state.margin, state.finished)


class Loaded:
    """A plan file that was read. Raises LiveError if it is none, or has no plans; the methods, if it does not match.

    cached: it is this program's own of an earlier start, with the same arguments.
    """

    def __init__(self, path: str, *, cached: bool = False) -> None:
        self._path, self._cached = path, cached
        self._file = plan_file.load(path)
        self.others_bytes = self._file.header.others_bytes
        if not self._file.header.budget_bytes:
            raise LiveError(f"{path} has steps that were recorded, and no plan")

    def limit(self, asked: int | None, *, share: bool) -> int:
        """The budget in bytes: `asked`; if None, the plan's. LiveError for a share, or less than the plan's.

        If cached, it is the plan's, also for a share.
        """
        own = self._file.header.budget_bytes
        if self._cached:
            return own
        if share or (asked is not None and asked < own):
            what = "a share" if share or asked is None else human(asked)
            raise LiveError(f"{self._path} is a plan for {human(own)}, and the budget is {what}; leave --memory out")
        return asked or own

    @property
    def hosting(self) -> Hosting | None:
        """What the plans may use of the host; None: they do not offload."""
        return self._file.header.hosting

    def policy(self, asked: Policy | str) -> str:
        """The plan's policy, which plans steps of new kinds, too. LiveError if another was asked for."""
        own = self._file.header.policy
        if asked not in (_DEFAULT, own):
            raise LiveError(f"{self._path} is a plan by {own}; leave --policy out")
        return own

    def kinds(self, device: str) -> list[Kind]:
        """The kinds of step in the file, with their schedules. LiveError if they are for another device.

        If cached, none if they do not match.
        """
        try:
            return self._kinds(device)
        except LiveError:
            if not self._cached:
                raise
            return []

    def _kinds(self, device: str) -> list[Kind]:
        if device != self._file.header.device:
            raise LiveError(f"{self._path} is a plan for {self._file.header.device}, and this program is on {device}")
        if self._cached and self._file.header.card != card(device):
            raise LiveError(f"{self._path} is a plan for {self._file.header.card}")
        return [self._kind(planned) for planned in self._file.kinds]

    def _kind(self, planned: Planned) -> Kind:
        tape = _tape_of(planned.tape, self._path)
        peak = peak_bytes(planned.trace, GRANULE)
        state = PlanState(planned.schedule, margin=planned.margin, why=planned.why)
        state.finished = planned.finished and self._cached  # on another machine steps may do better
        return Kind(planned.trace, tape, planned.decided, peak, planned.first, state)


def _lines_of(tape: Sequence[Entry]) -> list[Line]:
    """The tape as the file has it. Which parameters were operands is left out: it means nothing to another process."""

    def plain(shapes: Shapes) -> list[list[Any]]:
        return [[*sizes, str(dtype).removeprefix("torch.")] for *sizes, dtype in shapes]

    return [
        Line(str(t.func), [plain(t.shapes[0]), plain(t.shapes[1])], t.inputs, t.results, t.op, t.mutable) for t in tape
    ]


def _tape_of(lines: list[Line], file: str) -> list[Taped]:
    """The tape with ops and types of this process. LiveError if it does not have one. file: for the message."""

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
