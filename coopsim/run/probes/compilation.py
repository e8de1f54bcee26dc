"""Watch torch.compile in a script: the graphs that it compiles, where they break, and what it leaves uncompiled.

Functions of Dynamo's are wrapped once it has been imported. It compiles what it would compile unwatched: coopsim's
hooks, which it would trace and guard on, are removed while its callback is set, and coopsim's dispatch mode is disabled
while it traces.
"""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from coopsim.record.observe import torch_private
from coopsim.record.observe.interpose.library import load
from coopsim.record.observe.torch_private import TorchDispatchMode, mode_stack, modes_disabled, pop_mode, push_mode
from coopsim.run.probes import places, toolchain
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.run.records import GraphBreak

#: A line of a stack trace in the step of an optimizer, PyTorch's or the user's.
_IN_STEP = re.compile(
    r'/torch/optim/(?:optimizer\.py", line \d+, in (?:wrapper|_use_grad)|(?!optimizer|lr_scheduler|swa_utils)\w+\.py")'
)
#: Settings by which Inductor chooses kernels by measured times.
_MEASURED = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")
_GRAPHS = "triton.cudagraphs"
#: Hooks for all modules and optimizers.
_HOOKS = (
    "torch.nn.modules.module._global_forward_pre_hooks",
    "torch.nn.modules.module._global_forward_hooks",
    "torch.nn.modules.module._global_forward_hooks_always_called",
    "torch.optim.optimizer._global_optimizer_pre_hooks",
    "torch.optim.optimizer._global_optimizer_post_hooks",
)
#: Without the library (interpose/) a mode is active. From 2.10 on it can let Dynamo compile. Older releases silently
#: run everything eagerly while one is active, but 2.9 recompiles at every call. With 2.7 and 2.8, `_guard` makes
#: compilation possible.
_RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))
_COMPILES_WATCHED = _RELEASE >= (2, 10) or _RELEASE in ((2, 7), (2, 8)) or load() is not None


class Compilation(Probe):
    """Counts compiled graphs and graph breaks, and keeps Inductor from decisions that the phantom GPU cannot support.

    `entered` is called before a compiled function; `in_step` is given compiled code of an optimizer's step to call.
    Without `cuda_graphs`, Inductor is kept from making CUDA graphs, whose kernels cannot be seen.
    """

    def __init__(
        self,
        entered: Callable[[], None],
        in_step: Callable[[Callable[[], Any], CodeType], Any],
        *,
        cuda_graphs: bool = True,
    ) -> None:
        self.graphs = 0
        self.unmet = ""  #: why a graph could not be compiled here though it could on the real card; "" if all could
        self.asked = self.measured = False
        self.graphs_off = False  #: whether the script asked Inductor for CUDA graphs and got none
        self.before: list[Callable[[], None]] = []  #: called before each graph is compiled, under the script's settings
        self._breaks: Counter[tuple[str, str, bool]] = Counter()
        self._entered, self._in_step, self._cuda_graphs = entered, in_step, cuda_graphs
        self._hidden: list[tuple[dict[int, Any], int, Any]] = []
        self._tracing = False
        self._modes: list[Any] = []  #: dispatch modes that were active where Dynamo was called

    def report(self, found: ProcessReport) -> None:
        """Report the number of compiled graphs, and what kept others from being compiled."""
        found.compiled_graphs = self.graphs
        found.graph_breaks = [
            GraphBreak(place, reason, calls, whole) for (place, reason, whole), calls in self._breaks.items()
        ]
        found.compile_asked, found.compile_unmet = self.asked, self.unmet
        found.default_choices, found.graphs_off = self.measured, self.graphs_off

    def watch(self) -> None:
        """Start watching, to the end of the process; to be called once, when torch._dynamo has been imported."""
        torch_private.get("torch._dynamo.trace_rules.add")("coopsim")  # Dynamo shall not compile coopsim's own code
        warnings.filterwarnings("ignore", message=r"Using `torch.compile\(module\)` when there are global hooks")
        torch_private.around("torch._dynamo.eval_frame._maybe_set_eval_frame", self._callback_is_set)
        torch_private.around("torch._dynamo.convert_frame.ConvertFrameAssert.__call__", self._convert)
        if not hasattr(TorchDispatchMode, "ignore_compile_internals"):  # before PyTorch 2.10
            torch_private.around("torch._dynamo.convert_frame.CatchErrorsWrapper.__call__", self._called)
            torch_private.around("torch._dynamo.guards.CheckFunctionManager.__init__", self._guard)
        torch_private.around("torch._dynamo.output_graph.GraphCompileReason.__post_init__", self._graph_ends)
        torch_private.around("torch._dynamo.output_graph.OutputGraph.call_user_compiler", self._compile)
        torch_private.around("torch._TorchCompileInductorWrapper.__call__", self._inductor)

    def _callback_is_set(self, original: Callable[..., Any], callback: Any) -> Any:
        """Remove coopsim's hooks when Dynamo sets a callback, to compile what is called next; restore them at None.

        Do nothing while Dynamo traces a function: what it calls then is not compiled, and a function's frames must look
        the same at every attempt.
        """
        if self._tracing:
            return original(callback)
        if callback is None:
            for table, key, hook in self._hidden:
                table[key] = hook
            self._hidden.clear()
        elif not self._hidden and not _is_switched_off():
            self.asked = True
            if not _COMPILES_WATCHED:
                lacks = f"without a C++ compiler, in torch 2.7, 2.8 and from 2.10, not {torch.__version__}"
                self.unmet = f"torch.compile can be watched, {lacks}"
                raise RuntimeError(self.unmet)
            self._entered()
            for table in map(torch_private.get, _HOOKS):
                for key in [key for key, hook in table.items() if _is_ours(hook)]:
                    self._hidden.append((table, key, table.pop(key)))
        return original(callback)

    def _convert(self, original: Callable[..., Any], converter: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        """Let Dynamo compile a function; note an error, after which it runs uncompiled, or the script ends."""
        with modes_disabled():
            within, self._tracing = self._tracing, True
            try:
                return original(converter, frame, *args, **kwargs)
            except Exception as error:
                if type(error).__name__ != "SkipFrame":  # raised where there is nothing to compile
                    self._breaks[_place(frame.f_code), _first_line(places.root_of(error)), True] += 1
                raise
            finally:
                self._tracing = within

    def _called(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._modes = mode_stack() or self._modes
        return original(*args, **kwargs)

    def _guard(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Make guards with our modes active, as they will be when guards are checked, which compare that."""
        for mode in self._modes:
            push_mode(mode)
        try:
            original(*args, **kwargs)
        finally:
            for _ in self._modes:
                pop_mode()

    def _graph_ends(self, original: Callable[..., Any], reason: Any) -> None:
        if reason.graph_break:
            own = [f for f in reason.user_stack if places.is_own(f.filename)] or list(reason.user_stack)
            place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
            self._breaks[place, _first_line(reason.reason), False] += 1
        original(reason)

    def _compile(self, original: Callable[..., Any], graph: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        ops = sum(node.op.startswith("call_") for node in module.graph.nodes)
        code = graph.root_tx.f_code  # no longer available after compilation
        place = places.here() or _place(code)
        print(f"compiling graph {self.graphs + 1}: {ops} ops, for {place}", file=sys.stderr, flush=True)
        for call in self.before:
            call()
        compiled = original(graph, module, *args, **kwargs)
        self.graphs += 1
        if not any(_IN_STEP.search(node.meta.get("stack_trace") or "") for node in module.graph.nodes):
            return compiled
        return lambda *inputs: self._in_step(lambda: compiled(*inputs), code)

    def _inductor(self, original: Callable[..., Any], backend: Any, module: Any, inputs: Any) -> Any:
        on_device = any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs)
        if on_device and (lack := toolchain.missing()):
            self.unmet = f"torch.compile {lack}"
            raise RuntimeError(self.unmet)
        config: Any = torch_private.get("torch._inductor.config")
        if not self._cuda_graphs:
            self.graphs_off |= bool(backend.config.pop(_GRAPHS, False)) or config.triton.cudagraphs
            config.triton.cudagraphs = False
        for key in _MEASURED:
            self.measured |= bool(backend.config.pop(key, False)) or getattr(config, key)
            setattr(config, key, False)
        return original(backend, module, inputs)


def _is_ours(hook: Any) -> bool:
    return getattr(hook, "__module__", "").startswith("coopsim.")


def _is_switched_off() -> bool:
    """Return whether TORCH_COMPILE_DISABLE is set, with which Dynamo is called but compiles nothing."""
    return bool(torch_private.get("torch._dynamo.config").disable)


def _place(code: CodeType) -> str:
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def _first_line(said: object) -> str:
    return (str(said).strip().splitlines() or [""])[0]
