"""Note what is a parameter or a gradient while it is there: a program may replace it before the report is made.

So does `fully_shard` after a model was loaded, a loop that loads its best model at its end, and one that updates
parameters by hand, whose gradients no optimizer tells of.
"""

import weakref
from typing import Any

import torch
from torch import nn

from coopsim.base.types import Role
from coopsim.record.observe import torch_private
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.native import NativeLedger
from coopsim.record.observe.storages import Ledger
from coopsim.run.probes.probe import Probe


class Parameters(Probe):
    """Gives parameters their role when they are made on the device or moved there, gradients after a backward pass."""

    def __init__(self, ledger: Ledger | NativeLedger) -> None:
        self._ledger = ledger
        self._known: dict[int, weakref.ref[nn.Parameter]] = {}
        self._moves = 0  #: calls under way that move or convert a module, one within the other
        self._stepped = False

    def install(self) -> None:
        nn.modules.module.register_module_parameter_registration_hook(self._registered)
        torch_private.around("torch.nn.Module._apply", self._applied)
        torch.autograd.backward = torch_private.hooked(torch.autograd.backward, self._backward)

    def _applied(self, apply: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        self._moves += 1
        try:
            return apply(module, *args, **kwargs)
        finally:
            self._moves -= 1
            if not self._moves:
                for parameter in nn.Module.parameters(module):
                    self._assign(parameter, Role.PARAMETER)

    def _backward(self, backward: Any, *args: Any, **kwargs: Any) -> None:
        backward(*args, **kwargs)
        for known in () if self._stepped else list(self._known.values()):
            if (parameter := known()) is not None and parameter.grad is not None:
                self._assign(parameter, Role.PARAMETER)
                self._assign(parameter.grad, Role.GRADIENT)

    def step_ended(self, _steps: int) -> None:
        self._stepped = True  # optimizers tell of their parameters and gradients

    def _registered(self, _module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None:
            self._known[id(parameter)] = weakref.ref(parameter)
            self._assign(parameter, Role.PARAMETER)

    def _assign(self, value: torch.Tensor, role: Role) -> None:
        for tensor in tensors(value):
            storage = self._ledger.of(tensor) if tensor.is_cuda else None
            if storage is not None:
                storage.role = storage.role or role
