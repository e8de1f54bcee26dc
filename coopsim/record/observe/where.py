"""Find where in the program an op runs: its phase of the step, and the module that it belongs to.

No annotations are needed. Backward is what the autograd engine runs, and the gradient that it starts from. Optimizer is
Optimizer.step, whatever mutates gradients outside the engine (clipping, zeroing), and what runs after a backward pass
without gradients, or after Optimizer.step, until a module is called again. Forward is the rest. Forward ops belong to
the innermost module that is running; backward ops to the module in which their autograd node was made, which the
node's sequence number says.
"""

import bisect
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizer_hooks

from coopsim.base.types import Phase
from coopsim.record.observe import torch_private
from coopsim.record.observe.native import NativeModules
from coopsim.record.observe.torch_private import current_autograd_node, current_graph_task_id, next_sequence_nr


class _Replaced:
    """Wraps a private function of PyTorch's until `remove`; does nothing where this PyTorch lacks it."""

    def __init__(self, path: str, around: Callable[..., Any]) -> None:
        self._path = path
        self._original = torch_private.get(path) if torch_private.has(path) else None
        if self._original is not None:
            torch_private.around(path, around)

    def remove(self) -> None:
        if self._original is not None:
            torch_private.replace(self._path, self._original)


class Where:
    """Follows a program by global hooks of modules and optimizers, between `install` and `remove`.

    `phase` and `module` are to be asked while an op is dispatched, on the thread that runs it.
    """

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._stacks = threading.local()
        self._in_optimizer = 0
        self.autocast = False  #: whether a module was called under autocast
        self.backwards = 0  #: count of backward passes so far
        self._backward_done = self._stepped = False
        self._in_seed = False
        self._starts: list[int] = []  # sequence numbers at which the module changes, ascending
        self._modules: list[str] = []
        self._thread = threading.get_ident()
        self._handles: list[Any] = []
        self._native: NativeModules | None = None

    def install(self) -> None:
        """Install the hooks, on the thread whose modules are to be followed; to be called once, until `remove`."""
        self._thread = threading.get_ident()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
            optimizer_hooks.register_optimizer_step_pre_hook(self._optimizer(+1)),
            optimizer_hooks.register_optimizer_step_post_hook(self._optimizer(-1)),
            _Replaced("torch.autograd._make_grads", self._seed),
        ]

    def keep_up_to_date(self, native: NativeModules) -> None:
        """From now on, tell the library which module runs."""
        self._native = native

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def forget(self) -> None:
        """Forget which module made which autograd node; to be called when a step's autograd graph is gone."""
        del self._starts[:], self._modules[:]
        if self._native is not None:
            self._native.forget()

    def enter(self) -> None:
        """Note that a module or a compiled function is called.

        A forward pass begins with it (`next_step`), unless a module is running already, or the backward pass calls it.
        """
        if not self._stack() and current_graph_task_id() == -1:
            self.next_step()

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """Within the context, treat all ops as an optimizer's, and after it its step as over; for want of hooks."""
        self._in_optimizer += 1
        try:
            yield
        finally:
            self._in_optimizer -= 1
            self._stepped = self._in_optimizer == 0

    def next_step(self) -> None:
        """Note that another step begins, or another forward pass of the same step: the phase is forward again."""
        self._backward_done = self._stepped = False
        if self._native is not None:
            self._native.backward_done(reset=True)

    def phase(self, *, mutates_gradient: bool) -> Phase:
        """Return the phase of the op that is being dispatched, by the rules of this module.

        `mutates_gradient`: whether the op changes a gradient's data.
        """
        if current_graph_task_id() != -1:
            self._backward_done = True
            return Phase.BACKWARD
        if self._in_seed:
            return Phase.BACKWARD
        done = self._backward_done or (self._native is not None and self._native.backward_done())
        after = self._stepped or (done and not torch.is_grad_enabled())
        return Phase.OPTIMIZER if self._in_optimizer or mutates_gradient or after else Phase.FORWARD

    def module(self) -> str:
        """Return the name of the module of the op that is being dispatched; "" if it is in none."""
        stack = self._stack()
        if stack:
            return stack[-1]
        node = current_autograd_node() if current_graph_task_id() != -1 else None
        if node is None:
            return ""
        at = bisect.bisect_right(self._starts, node._sequence_nr()) - 1
        # An AccumulateGrad node has the largest possible number, and belongs to no module.
        return self._modules[at] if 0 <= at < len(self._starts) - 1 else ""

    def _stack(self) -> list[str]:
        if not hasattr(self._stacks, "names"):
            self._stacks.names = []
        found: list[str] = self._stacks.names
        return found

    def know(self, modules: list[nn.Module]) -> None:
        """Name all modules of the program by their paths within their roots; earlier names are kept.

        A root's class name comes first ("Linear", "Net.layers.0"), but is left out for the modules within the only root
        that has children.
        """
        children = {id(child) for module in modules for child in module.children()}
        roots = [module for module in modules if id(module) not in children]
        families = sum(any(True for _ in root.children()) for root in roots)
        for root in roots:
            own = type(root).__name__
            for path, module in root.named_modules():
                name = path if path and families == 1 else f"{own}.{path}" if path else own
                self._names.setdefault(module, name)

    def _enter(self, module: nn.Module, _: Any) -> None:
        self.enter()
        self.autocast = self.autocast or torch.is_autocast_enabled("cuda")
        stack = self._stack()
        if module not in self._names:  # created since `know`
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
        """Note that another module begins at the next autograd node. Sequence numbers are kept for our thread only."""
        name, sequence = stack[-1] if stack else "", -1
        if threading.get_ident() == self._thread:
            sequence = next_sequence_nr()
            self._starts.append(sequence)
            self._modules.append(name)
        if self._native is not None:
            self._native.enter(name, sequence)

    def _seed(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Wrap the function that makes the gradient of the loss before the engine starts: its ops are backward."""
        self.backwards += 1
        self._in_seed = True
        try:
            return original(*args, **kwargs)
        finally:
            self._in_seed = False

    def _optimizer(self, by: int) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self._in_optimizer += by
            self._stepped = self._in_optimizer == 0

        return hook
