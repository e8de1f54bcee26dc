"""A program's plans at rest: which file has them, whether they match, and their ops and types in this process.

`live plan` exports such a file, and `--plan` imports it. `live run` keeps one in the user's cache for other starts. A
signature is a recorded step that stands for all that dispatch the same ops on the same sizes (signatures.py).
"""

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch

from coopsim.base.text import human
from coopsim.live import device as devices
from coopsim.live import plan_file
from coopsim.live.errors import LiveError
from coopsim.live.plan import Entry
from coopsim.live.plan_file import PlanFile
from coopsim.live.signatures import Signature
from coopsim.record.observe.torch_private import OpOverload
from coopsim.simulate.policies import Policy

_DEFAULT = "foresight-offline"
_NO_FILE = PlanFile(0, "", 0, "", "")


class StoredPlans:
    """The plans of a program in a file (plan_file.py). Raises LiveError if it is none, or has no plans.

    own: it lies in the user's cache, for other starts of this program with these arguments. It need not be there; what
    does not match is planned anew; and a Learner writes it. The methods raise LiveError for any other that does
    not match. arena: whether steps run in one, as those of an own file have to.
    """

    def __init__(self, path: str, *, own: bool = False, arena: bool = False) -> None:
        self.path, self.own = path, own
        self.file = _NO_FILE
        with suppress(LiveError) if own else nullcontext():
            file = plan_file.load(path)
            if not file.budget_bytes:
                raise LiveError(f"{path} has steps that were recorded, and no plan")
            if not own or file.arena == arena:
                self.file = file

    def limit(self, asked: int | None, *, share: bool) -> int | None:
        """The budget in bytes: `asked`; if None, the plan's. LiveError for a share, or less than the plan's.

        If own, it is the plan's, also for a share.
        """
        planned = self.file.budget_bytes
        if self.own:
            return planned or asked
        if share or (asked is not None and asked < planned):
            what = "a share" if share or asked is None else human(asked)
            raise LiveError(f"{self.path} is a plan for {human(planned)}, and the budget is {what}; leave --memory out")
        return asked or planned

    def policy(self, asked: Policy | str) -> Policy | str:
        """The plan's policy, which plans steps of new signatures, too. LiveError if another was asked for."""
        planned = self.file.policy
        if planned and asked not in (_DEFAULT, planned):
            raise LiveError(f"{self.path} is a plan by {planned}; leave --policy out")
        return planned or asked

    def signatures(self, device: str) -> list[Signature]:
        """The step signatures in the file, with their schedules. LiveError if they are for another device.

        If own, none if they do not match.
        """
        found: list[Signature] = []
        with suppress(LiveError) if self.own else nullcontext():
            if device != self.file.device:
                raise LiveError(f"{self.path} is a plan for {self.file.device}, and this program is on {device}")
            if self.own and self.file.card != devices.card(device):
                raise LiveError(f"{self.path} is a plan for {self.file.card}")
            found += [self._here(signature) for signature in self.file.signatures]
        return found

    def _here(self, signature: Signature) -> Signature:
        state = signature.state
        state = replace(state, stays=state.stays and self.own)  # elsewhere steps may do better
        return replace(signature, op_log=_op_log_of(signature, self.path), state=state)


def _op_log_of(signature: Signature, file: str) -> list[Entry]:
    """The op log with ops and types of this process. LiveError if it does not have one. file: for the message."""
    ops = {name: _op(name, file) for name in dict.fromkeys(entry.func for entry in signature.op_log)}
    streams = signature.trace.stream.tolist()

    def here(entry: Entry) -> Entry:
        given, made = (tuple((*sizes, _dtype(name, file)) for *sizes, name in some) for some in entry.shapes)
        stream = streams[entry.op] if entry.op >= 0 else 0
        return replace(entry, func=ops[entry.func], shapes=(given, made, None), stream=stream)

    return [here(entry) for entry in signature.op_log]


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
