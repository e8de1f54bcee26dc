"""Find the role of each storage (parameter, buffer, gradient, …) by inspecting the objects that Python holds."""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from coopsim.base.types import Role
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.native import NativeLedger, memory
from coopsim.record.observe.storages import Ledger
from coopsim.record.observe.torch_private import FakeTensor, active_fake_mode


@dataclass
class Objects:
    """The program's modules, optimizers, tensors and CUDA graphs at one moment, as the interpreter lists them.

    `tensors` are plain tensors of the device, those within wrappers (DTensors) included. `whole` are the same tensors
    as the program sees them, the wrappers instead of what is within.
    """

    modules: list[nn.Module] = field(default_factory=list)
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    whole: list[torch.Tensor] = field(default_factory=list)
    graphs: list[torch.cuda.CUDAGraph] = field(default_factory=list)

    @classmethod
    def now(cls) -> "Objects":
        """Return the objects that Python's garbage collector knows at this moment, each once.

        Tensors of other devices, of another fake mode, or with an invalid storage are left out.
        """
        found, mode = cls(), active_fake_mode()
        wanted: dict[int, Any] = {}  # its base by class, looked up once: there are hundreds of thousands of objects
        for one in gc.get_objects():
            kind = type(one)  # not isinstance: proxies may run code when they are asked
            if id(kind) not in wanted:
                bases = (torch.Tensor, nn.Module, torch.optim.Optimizer, torch.cuda.CUDAGraph)
                wanted[id(kind)] = next((base for base in bases if issubclass(kind, base)), None)
            base = wanted[id(kind)]
            if base is torch.Tensor:
                if issubclass(kind, FakeTensor) and one.fake_mode is not mode:
                    continue  # torch.compile keeps fake tensors for those that it has compiled for
                held = list(filter(_has_address, tensors(one)))
                found.tensors += held
                found.whole += [one] * bool(held)
            elif base is nn.Module:
                found.modules.append(one)
            elif base is torch.optim.Optimizer:
                found.optimizers.append(one)
            elif base is not None:
                found.graphs.append(one)
        return found

    def parameters(self) -> list[nn.Parameter]:
        """Return every nn.Parameter on the device once, wrappers (DTensors) as the program sees them."""
        return [t for t in self.whole if isinstance(t, nn.Parameter)]

    def leaves(self) -> list[torch.Tensor]:
        """Return the tensors in whose `.grad` gradients are accumulated: leaves that require a gradient."""
        return [t for t in self.whole if t.requires_grad and _is_leaf(t)]

    def by_role(self) -> Iterator[tuple[Role, torch.Tensor]]:
        """Yield (role, tensor) for each parameter, then each buffer, optimizer state and gradient, in this order.

        DTensors are taken apart. Storages may be shared, so one may come several times; `assign` takes its first role.
        """
        for parameter in self.parameters():
            for tensor in tensors(parameter):
                yield Role.PARAMETER, tensor
        for module in self.modules:
            for buffer in nn.Module.buffers(module, recurse=False):  # a class may have an attribute of that name
                for tensor in tensors(buffer):
                    yield Role.BUFFER, tensor
        for optimizer in self.optimizers:
            for tensor in within(getattr(optimizer, "state", {})):  # one that never called Optimizer.__init__ has none
                yield Role.OPTIMIZER_STATE, tensor
        for leaf in self.leaves():
            for gradient in tensors(leaf.grad):
                yield Role.GRADIENT, gradient


def _has_address(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's storage is valid. Dynamo keeps invalid ones for Triton in autograd.Functions."""
    address, nbytes = memory(tensor)
    return bool(address) or not nbytes or isinstance(tensor, FakeTensor)


def _is_leaf(tensor: torch.Tensor) -> bool:
    """Return tensor.is_leaf; False where that raises, as for FSDP1's views of a flat parameter written to."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return False


def within(value: Any) -> Iterator[torch.Tensor]:
    """Yield the device's tensors in a value of nested dicts, lists and tuples, as the state of an optimizer is."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from within(item)
    else:
        yield from tensors(value)


def assign(objects: Objects, ledger: Ledger | NativeLedger) -> None:
    """Set the role of every storage that has none yet, to the first that `objects.by_role` gives it.

    All tensors of `objects` are entered in the ledger, those it does not know by address: the interpreter's order is
    not the same in each run. A storage in none of the roles keeps none.
    """
    for tensor in sorted(objects.tensors, key=memory):
        ledger.of(tensor)
    for role, tensor in objects.by_role():
        storage = ledger.of(tensor)
        if storage is not None and storage.role is None:
            storage.role = role


class GradientHooks:
    """Marks the storages of gradients as they are accumulated: by the end of the step they may be gone."""

    def __init__(self, leaves: list[torch.Tensor], ledger: Ledger | NativeLedger) -> None:
        self._ledger = ledger
        self._handles = [leaf.register_post_accumulate_grad_hook(self._made) for leaf in leaves]  # type: ignore[no-untyped-call]

    def _made(self, leaf: torch.Tensor) -> None:
        for gradient in tensors(leaf.grad):
            storage = self._ledger.of(gradient)
            if storage is not None and storage.role is None:
                storage.role = Role.GRADIENT

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
