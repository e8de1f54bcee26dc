"""Break down a rank's memory by what it is used for, its kind, at the moment when its tensors take most.

Of sharded parameters, gradients, optimizer state and buffers a rank holds its shards. A layer gathered from all ranks'
shards is recognized by the all-gather, a bucket of gradients by the collective that reduces it in the backward pass.
"""

import bisect
import sys
from collections import Counter
from typing import Any

import torch
from torch.optim import optimizer as hooks

from coopsim.base.types import Phase, Role
from coopsim.record.observe import roles, torch_private
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.storages import Storage
from coopsim.run.probes import wrappers
from coopsim.run.probes.kept import Unused
from coopsim.run.probes.peaks import PeakProbe
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport

GATHERED, BUCKETS, UNUSED = "gathered_layers", "buckets", "unused"
_NAMES = {
    Role.PARAMETER: "parameters",
    Role.GRADIENT: "gradients",
    Role.OPTIMIZER_STATE: "optimizer_state",
    Role.BUFFER: "module_buffers",
}
_ACTIVATIONS = "activations"
_TEMPORARIES = "optimizer_temporaries"
_WORKSPACES = "workspaces"
KINDS = (*_NAMES.values(), _TEMPORARIES, GATHERED, BUCKETS, _ACTIVATIONS, UNUSED, _WORKSPACES)

#: Ops whose arguments are of a certain kind: op → ((index or name of the argument, kind), ...).
_BY_OP: dict[str, tuple[tuple[Any, str], ...]] = {
    "c10d::_allgather_base_": ((0, GATHERED),),
    "c10d::allgather_into_tensor_coalesced_": ((0, GATHERED),),
    "c10d::_reduce_scatter_base_": ((1, BUCKETS),),
    "c10d::reduce_scatter_tensor_coalesced_": ((1, BUCKETS),),
    "fsdp::split_with_sizes_copy": (("out", GATHERED),),
    "fsdp::chunk_cat": ((0, "gradients"), ("out", BUCKETS)),
}
_ALL_REDUCES = ("c10d::allreduce_", "c10d::allreduce_coalesced_", "c10d::reduce_")
_CAT = "aten::cat"  #: by which ZeRO puts gathered layers, and gradients of a bucket, together


def ops() -> frozenset[str]:
    """Return the ops after which `after` must be called; more of them once the program has imported DeepSpeed."""
    return frozenset((*_BY_OP, *_ALL_REDUCES, *([_CAT] if "deepspeed" in sys.modules else [])))


class Kinds(Probe):
    """Follows what a program's storages are used for. `recorder` is the one that sees its ops.

    `peaks` has the allocator's peak, `unused` the serials of storages that no step reads.
    """

    name = "peak_by_kind"

    def __init__(self, recorder: Any, peaks: PeakProbe, unused: Unused) -> None:
        self._recorder, self._ledger, self._peaks, self._unused = recorder, recorder.ledger, peaks, unused
        self._last_joined: list[tuple[Storage, list[Storage]]] = []
        self._made_in_steps: list[int] = []  # newest serials at the start and the end of each optimizer step, in turn

    def install(self) -> None:
        self._recorder.call_after(self.after)
        hooks.register_optimizer_step_pre_hook(self._steps)
        hooks.register_optimizer_step_post_hook(self._stepped)

    def after(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Note what the arguments of an op in OPS are used for, and whether live bytes have a new maximum.

        To be called after each op in OPS; for any other op only the maximum is updated.
        """
        name = func._schema.name
        if name in _BY_OP:
            for place, kind in _BY_OP[name]:
                self._mark(kwargs.get(place) if isinstance(place, str) else args[place], kind)
        elif name in _ALL_REDUCES and self._reduces_gradients():
            self._mark(args[0], BUCKETS)
            for whole, parts in self._last_joined:
                if whole.kind == BUCKETS:
                    for part in parts:
                        part.kind = part.kind or BUCKETS
        elif name == _CAT:
            self._joined(args[0], out)
        self._ledger.look_at_peak()

    def _reduces_gradients(self) -> bool:
        """Return whether a collective is of gradients: in the backward pass, or after it, and not within a module."""
        where = self._recorder.where
        return where.phase(mutates_gradient=False) is Phase.BACKWARD or not where.module()

    def _joined(self, parts: Any, out: torch.Tensor) -> None:
        """Note of a concatenation that it is of gathered layers, and what it is made of, in case it is a bucket."""
        whole = self._ledger.of(out)
        storages = {id(part): part for part in map(self._ledger.of, tensors(parts)) if part is not None}.values()
        if whole is not None:
            whole.kind = GATHERED if any(part.kind == GATHERED for part in storages) else None
            self._last_joined = [(whole, list(storages))]

    def report(self, found: ProcessReport) -> None:
        found.peak_by_kind = self.at_peak(self._peaks.run["allocated"])

    def at_peak(self, allocated: int) -> dict[str, int]:
        """Return the bytes of each kind (KINDS), 0 included, at the moment of the peak of live bytes.

        "workspaces" are cuBLAS's, which stay. "other" is the rest of `allocated`, the allocator's peak in bytes:
        temporaries within ops, and rounding.
        """
        objects = roles.Objects.now()
        roles.assign(objects, self._ledger)
        self._assign_of_wrappers(objects)
        found: Counter[str] = Counter()
        unused = self._unused.serials
        for storage in self._ledger.at_most():
            found[UNUSED if storage.serial in unused else self._kind(storage)] += storage.nbytes
        rest = allocated - sum(found[kind] for kind in KINDS)
        found[_WORKSPACES] = max(min(_workspaces(), rest), 0)
        return {kind: found[kind] for kind in KINDS} | {"other": max(allocated - sum(found[k] for k in KINDS), 0)}

    def _kind(self, storage: Storage) -> str:
        stays = storage.role in (Role.PARAMETER, Role.OPTIMIZER_STATE, Role.BUFFER)
        if storage.kind is not None and not (storage.kind == BUCKETS and stays):  # ranks may average what stays
            return storage.kind
        if storage.role in _NAMES:
            return _NAMES[storage.role]
        return _TEMPORARIES if bisect.bisect_left(self._made_in_steps, storage.serial) % 2 else _ACTIVATIONS

    def _assign_of_wrappers(self, objects: roles.Objects) -> None:
        for role, tensor in wrappers.held(objects):
            storage = self._ledger.of(tensor)
            if storage is None:
                continue
            if isinstance(role, Role):
                storage.role = storage.role or role
                storage.kind = None  # gathered into what stays
            else:
                storage.kind = BUCKETS

    def _mark(self, value: Any, kind: str) -> None:
        for tensor in tensors(value):
            storage = self._ledger.of(tensor)
            if storage is not None:
                storage.kind = storage.kind or kind

    def _steps(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._ledger.catch_up()  # objects of freed gradients would have Python's collector run sooner
        self._made_in_steps.append(self._ledger.newest)
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group["params"]:
                self._assign(parameter, Role.PARAMETER)
                self._assign(parameter.grad, Role.GRADIENT)

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._made_in_steps.append(self._ledger.newest)
        for tensor in roles.within(getattr(optimizer, "state", {})):
            self._assign(tensor, Role.OPTIMIZER_STATE)

    def _assign(self, value: Any, role: Role) -> None:
        for tensor in tensors(value):
            storage = self._ledger.of(tensor)
            if storage is not None:
                storage.role = storage.role or role
                if role is Role.GRADIENT:  # the bucket that was reduced into is now the rank's own gradient
                    storage.kind = None


def _workspaces() -> int:
    """Return the bytes that cuBLAS's workspaces take of PyTorch's allocator, by giving them back."""
    before = torch.cuda.memory_allocated()
    torch_private.get("torch._C._cuda_clearCublasWorkspaces")()
    return before - torch.cuda.memory_allocated()
