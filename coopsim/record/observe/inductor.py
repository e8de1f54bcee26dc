"""Record what the dispatcher does not see of Inductor's code: its buffers and its Triton kernels.

Inductor's wrappers allocate by a C++ function, and launch kernels by CachingAutotuner.run. Both are replaced. A buffer
counts as created by the first op that writes to it; a kernel is recorded as an op of its name that reads and writes its
pointer arguments. Matrix products and the like are calls of aten ops with `out=`, which the dispatcher sees.

Notice replays of CUDA graphs, whose kernels no dispatcher sees.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from coopsim.base.errors import CaptureError
from coopsim.record.observe import torch_private
from coopsim.record.observe.recorder import Recorder

_WRITTEN = ("out_ptr", "in_out_ptr", "ws_ptr")
LAUNCHER = "torch._inductor.runtime.triton_heuristics"  #: the module that launches kernels
_LAUNCH = f"{LAUNCHER}.CachingAutotuner.run"
_ALLOCATE = "torch._C._dynamo.guards._empty_strided_cuda"
#: The recorder that is told of what is replaced, the latest one: wrappers keep what they find, so it is replaced once.
_told: dict[str, Recorder] = {}


def watch_buffers(recorder: Recorder) -> None:
    """Let `recorder` know, from now on, the buffers that Inductor's wrappers allocate (Recorder.made).

    The caller does this before Inductor's first wrapper is loaded, which binds the function that is replaced here. Does
    nothing if PyTorch was built without CUDA.
    """
    if not torch_private.has(_ALLOCATE):
        return  # a PyTorch without CUDA
    first, _told[_ALLOCATE] = _ALLOCATE not in _told, recorder
    if not first:
        return
    allocate = torch_private.get(_ALLOCATE)

    def empty_strided_cuda(*args: Any) -> torch.Tensor:
        tensor: torch.Tensor = allocate(*args)
        _told[_ALLOCATE].made(tensor)
        return tensor

    torch_private.replace(_ALLOCATE, empty_strided_cuda)


def around_kernels(run: Callable[[Callable[[], Any], Any, Sequence[Any]], Any]) -> None:
    """Let `run` run each kernel that Inductor's code launches, given what launches it, itself and its arguments.

    Of runs that only measure a kernel's time it is not told. To be called once LAUNCHER has been imported.
    """

    def launched(launch: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("benchmark_run"):
            return launch(kernel, *args, **kwargs)
        return run(lambda: launch(kernel, *args, **kwargs), kernel, args)

    torch_private.around(_LAUNCH, launched)


def watch_kernels(recorder: Recorder) -> None:
    """Let `recorder` record, from now on, the Triton kernels that Inductor's code launches (Recorder.kernel)."""
    first, _told[_LAUNCH] = _LAUNCH not in _told, recorder
    if not first:
        return

    def run(launch: Callable[[], Any], kernel: Any, args: Sequence[Any]) -> Any:
        recorder = _told[_LAUNCH]
        if not recorder.records:
            return launch()
        reads: list[torch.Tensor] = []
        writes: list[torch.Tensor] = []
        changed = set(kernel.mutated_arg_names or ())
        for name, value in zip(kernel.triton_meta["signature"], args, strict=False):
            if isinstance(value, torch.Tensor):
                (writes if name.startswith(_WRITTEN) or name in changed else reads).append(value)
        name = kernel.inductor_meta.get("kernel_name") or kernel.fn.__name__
        return recorder.kernel(f"triton.{name}", reads, writes, launch)

    around_kernels(run)


def watch_kernels_if_any(recorder: Recorder) -> None:
    """Call `watch_kernels` if this process has imported Inductor's launcher of kernels; else do nothing.

    So the program has to have run once. From then on, a replay of a CUDA graph while recording raises CaptureError.
    """
    if LAUNCHER not in sys.modules:
        return
    first = _LAUNCH not in _told
    watch_kernels(recorder)

    def refuse() -> None:
        if _told[_LAUNCH].records:
            raise CaptureError("the step replays CUDA graphs, which show no ops; compile it without them")

    if first:
        before_replay(refuse)


def before_replay(call: Callable[[], None]) -> None:
    """Invoke `call` before every replay of a CUDA graph in this process, from now on; it cannot be undone."""
    original = torch.cuda.CUDAGraph.replay

    def replay(graph: Any) -> None:
        call()
        original(graph)

    torch.cuda.CUDAGraph.replay = replay  # type: ignore[method-assign, assignment]
