"""Where in the program an op runs: its phase of the step, and the module that it belongs to.

No annotation is asked for. Backward is what the autograd engine runs. Optimizer is Optimizer.step, whatever mutates
gradients outside the engine (clipping, zeroing), and what runs without gradients after a backward pass. Forward is
the rest. Forward ops belong to the innermost module that is running; backward ops to the module in which their
autograd node was made, which the node's sequence number tells.
"""

import bisect
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizer_hooks

from coopsim.types import Phase


class Where:
    """Follows a program through global hooks, between `install` and `remove`."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._stacks = threading.local()
        self._in_optimizer = 0
        self._backward_done = False
        self._starts: list[int] = []  # sequence numbers at which the module changes, ascending
        self._modules: list[str] = []
        self._thread = threading.get_ident()
        self._handles: list[Any] = []

    def install(self, modules: list[nn.Module]) -> None:
        """Start to follow. `modules` are all that are known; each gets its name within its root."""
        self._name(modules)
        self._thread = threading.get_ident()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
            optimizer_hooks.register_optimizer_step_pre_hook(self._optimizer(+1)),
            optimizer_hooks.register_optimizer_step_post_hook(self._optimizer(-1)),
        ]

    def remove(self) -> None:
        """Stop following."""
        for handle in self._handles:
            handle.remove()

    def next_step(self) -> None:
        """Another step begins."""
        self._backward_done = False

    def phase(self, *, mutates_gradient: bool) -> Phase:
        """The phase of an op that is being dispatched."""
        if torch._C._current_graph_task_id() != -1:
            self._backward_done = True
            return Phase.BACKWARD
        if self._in_optimizer or mutates_gradient or (self._backward_done and not torch.is_grad_enabled()):
            return Phase.OPTIMIZER
        return Phase.FORWARD

    def module(self) -> str:
        """The module of an op that is being dispatched; "" if it is in none."""
        stack = self._stack()
        if stack:
            return stack[-1]
        node = torch._C._current_autograd_node() if torch._C._current_graph_task_id() != -1 else None
        if node is None:
            return ""
        at = bisect.bisect_right(self._starts, node._sequence_nr()) - 1
        # An AccumulateGrad node has the largest number there is, and is in no module.
        return self._modules[at] if 0 <= at < len(self._starts) - 1 else ""

    def _stack(self) -> list[str]:
        if not hasattr(self._stacks, "names"):
            self._stacks.names = []
        found: list[str] = self._stacks.names
        return found

    def _name(self, modules: list[nn.Module]) -> None:
        children = {id(child) for module in modules for child in module.children()}
        roots = [module for module in modules if id(module) not in children]
        families = sum(any(True for _ in root.children()) for root in roots)
        for root in roots:
            own = type(root).__name__
            for path, module in root.named_modules():
                name = path if path and families == 1 else f"{own}.{path}" if path else own
                self._names.setdefault(module, name)

    def _enter(self, module: nn.Module, _: Any) -> None:
        stack = self._stack()
        if not stack and torch._C._current_graph_task_id() == -1:
            self._backward_done = False
        if module not in self._names:  # made after the start
            for path, child in module.named_modules():
                own = type(module).__name__
                self._names.setdefault(child, f"{own}.{path}" if path else own)
        stack.append(self._names[module])
        self._mark(stack)

    def _leave(self, *_: Any) -> None:
        stack = self._stack()
        if stack:
            stack.pop()
        self._mark(stack)

    def _mark(self, stack: list[str]) -> None:
        """From the next autograd node on, we are in another module. Numbers count per thread: only ours is kept."""
        if threading.get_ident() == self._thread:
            self._starts.append(torch._C._autograd._get_sequence_nr())
            self._modules.append(stack[-1] if stack else "")

    def _optimizer(self, by: int) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self._in_optimizer += by

        return hook
