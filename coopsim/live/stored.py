"""Writes the step signatures of this process to plan files, and reads them. Files name ops and types.

A signature is a recorded step that stands for all that dispatch the same ops on the same sizes (signatures.py).
"""

from collections.abc import Sequence
from typing import Any

import torch

from coopsim.live import device as devices
from coopsim.live import plan_file
from coopsim.live.device import GRANULE
from coopsim.live.errors import LiveError
from coopsim.live.host.hosting import Hosting
from coopsim.live.op_log import LoggedOp, Shapes
from coopsim.live.plan import Entry
from coopsim.live.plan_file import Header, Line, PlanFile, Planned
from coopsim.live.plan_state import Candidate, NoPlan
from coopsim.live.signatures import Signature
from coopsim.observe.torch_private import OpOverload
from coopsim.policies import Policy
from coopsim.text import human
from coopsim.trace.measure import peak_bytes

_DEFAULT = "foresight-offline"


def header(
    limit: int | None,
    policy: Policy | str,
    others_bytes: int,
    device: str,
    command: str,
    *,
    arena: bool,
    hosting: Hosting | None,
) -> Header:
    """The header of a plan file that this process writes.

    limit: the budget in bytes; None: steps were only recorded. device: "cuda" or "cpu". The other
    arguments are fields of Header.
    """
    name = policy if isinstance(policy, str) else policy.name
    return Header(limit or 0, name, others_bytes, torch.__version__, device, command, arena=arena, hosting=hosting)


def save(signatures: Sequence[Signature], path: str, head: Header) -> None:
    """Write step signatures and their schedules to a plan file, whole or not at all."""
    plan_file.save(PlanFile(head, [_planned(signature) for signature in signatures]), path)


def _planned(signature: Signature) -> Planned:
    state, lines = signature.state, _lines_of(signature.op_log)
    return Planned(
        signature.trace,
        lines,
        signature.decided,
        signature.first,
        state.schedule,
        state.why,
        state.margin,
        state.stays,
    )


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
        """The plan's policy, which plans steps of new signatures, too. LiveError if another was asked for."""
        own = self._file.header.policy
        if asked not in (_DEFAULT, own):
            raise LiveError(f"{self._path} is a plan by {own}; leave --policy out")
        return own

    def signatures(self, device: str) -> list[Signature]:
        """The step signatures in the file, with their schedules. LiveError if they are for another device.

        If cached, none if they do not match.
        """
        try:
            return self._matching(device)
        except LiveError:
            if not self._cached:
                raise
            return []

    def _matching(self, device: str) -> list[Signature]:
        if device != self._file.header.device:
            raise LiveError(f"{self._path} is a plan for {self._file.header.device}, and this program is on {device}")
        if self._cached and self._file.header.card != devices.card(device):
            raise LiveError(f"{self._path} is a plan for {self._file.header.card}")
        return [_signature(planned, self._path, cached=self._cached) for planned in self._file.signatures]


def _signature(planned: Planned, file: str, *, cached: bool) -> Signature:
    op_log = _op_log_of(planned.op_log, file)
    peak = peak_bytes(planned.trace, GRANULE)
    candidate = Candidate(planned.margin, planned.schedule) if planned.schedule is not None else None
    state = NoPlan(planned.why, candidate, stays=planned.finished and cached)  # elsewhere steps may do better
    return Signature(planned.trace, op_log, planned.decided, peak, planned.first, state)


def _lines_of(op_log: Sequence[Entry]) -> list[Line]:
    """The op log as a file has it. Which parameters were operands is left out: it means nothing to another process."""

    def plain(shapes: Shapes) -> list[list[Any]]:
        return [[*sizes, str(dtype).removeprefix("torch.")] for *sizes, dtype in shapes]

    return [
        Line(str(t.func), [plain(t.shapes[0]), plain(t.shapes[1])], t.inputs, t.results, t.op, t.mutable)
        for t in op_log
    ]


def _op_log_of(lines: list[Line], file: str) -> list[LoggedOp]:
    """The op log with ops and types of this process. LiveError if it does not have one. file: for the message."""

    def exact(shapes: list[list[Any]]) -> Shapes:
        return tuple((*sizes, _dtype(name, file)) for *sizes, name in shapes)

    found: dict[str, Any] = {}
    for line in lines:
        if line.func not in found:
            found[line.func] = _op(line.func, file)
    return [
        LoggedOp(
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
