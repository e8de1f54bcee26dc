"""Reads the step signatures of a plan file into this process, which has to have their ops and types.

A signature is a recorded step that stands for all that dispatch the same ops on the same sizes (signatures.py).
"""

from dataclasses import replace
from typing import Any

import torch

from coopsim.base.text import human
from coopsim.live import device as devices
from coopsim.live import plan_file
from coopsim.live.errors import LiveError
from coopsim.live.host.hosting import Hosting
from coopsim.live.op_log import LoggedOp, Shapes
from coopsim.live.plan_state import NoPlan
from coopsim.live.signatures import Signature
from coopsim.record.observe.torch_private import OpOverload
from coopsim.simulate.policies import Policy

_DEFAULT = "foresight-offline"


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
        return [self._here(signature) for signature in self._file.signatures]

    def _here(self, signature: Signature) -> Signature:
        state = signature.state
        if isinstance(state, NoPlan) and not self._cached:
            state = replace(state, stays=False)  # elsewhere steps may do better
        return replace(signature, op_log=_op_log_of(signature, self._path), state=state)


def _op_log_of(signature: Signature, file: str) -> list[LoggedOp]:
    """The op log with ops and types of this process. LiveError if it does not have one. file: for the message."""

    def exact(shapes: list[list[Any]]) -> Shapes:
        return tuple((*sizes, _dtype(name, file)) for *sizes, name in shapes)

    found: dict[str, Any] = {}
    lines, streams = signature.op_log, signature.trace.stream.tolist()
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
            streams[line.op] if line.op >= 0 else 0,
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
