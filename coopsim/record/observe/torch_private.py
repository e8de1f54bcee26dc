"""Every private name of PyTorch that coopsim uses: its path, and what does not work without it.

Names that are bound here are imported from here. Those that are only registered (`known`) are spelled where they are
used, if they are methods and attributes, or are accessed by `get` and `replace`, if they load late or are replaced.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from coopsim.record.observe.private import around as around
from coopsim.record.observe.private import get as get
from coopsim.record.observe.private import has as has
from coopsim.record.observe.private import hooked as hooked
from coopsim.record.observe.private import known, now
from coopsim.record.observe.private import replace as replace

if TYPE_CHECKING:  # type checkers need the real imports of types
    from torch._guards import active_fake_mode as active_fake_mode
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_traceable_wrapper_subclass
else:
    TorchDispatchMode = now("torch.utils._python_dispatch.TorchDispatchMode", "ops are not seen: nothing is recorded")
    is_traceable_wrapper_subclass = now(
        "torch.utils._python_dispatch.is_traceable_wrapper_subclass", "the tensors inside a DTensor are not seen"
    )
    OpOverload = now("torch._ops.OpOverload", "the ops of a plan file are not found")
    HigherOrderOperator = now("torch._ops.HigherOrderOperator", "DTensor's random ops stop a script")
    active_fake_mode = now("torch._guards.active_fake_mode", "fake tensors are taken for the program's own")
    FakeTensor = now("torch._subclasses.fake_tensor.FakeTensor", "fake tensors are taken for the program's own")


def op_overload(name: str, overload: str) -> Any:
    """Return the op of a name and an overload ("aten::add", "Tensor"; "" is the default one); None if there is none."""
    namespace, _, packet = name.partition("::")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    except (AttributeError, RuntimeError):
        return None


# What autograd is doing.
current_graph_task_id: Callable[[], int] = now(
    "torch._C._current_graph_task_id", "ops of a backward pass are not told from others; -1: none runs on this thread"
)
current_autograd_node: Callable[[], Any] = now(
    "torch._C._current_autograd_node", "backward ops have no module, and gradients are not added up in place"
)
next_sequence_nr: Callable[[], int] = now("torch._C._autograd._get_sequence_nr", "backward ops have no module")
known("torch._C._functions.AccumulateGrad._sequence_nr", "backward ops have no module")
known("torch._compile", "gradients are not added up in place where PyTorch wraps a mode: recorded peaks are too high")
known("torch.autograd._make_grads", "the gradient of the loss counts to the forward pass")
known("torch.autograd.graph._engine_run_backward", "gradients are added up in place in a user's backward, too")
storage_use_count: Callable[[int], int] = now(
    "torch._C._storage_Use_Count", "gradients are never added up in place, so that recorded peaks are too high"
)
known("torch.Tensor._indices", "sparse tensors are not recorded")
known("torch.Tensor._values", "sparse tensors are not recorded")
known("torch.Tensor._nnz", "the size of a coalesced sparse tensor is not bounded")
known("torch.utils.data.dataloader._BaseDataLoaderIter", "fit does not find the DataLoader that sets the batch")
known("torch.Tensor._version", "coopsim.live does not notice what other threads write")
known("torch.Tensor._use_count", "gradients are never added up in place, so that recorded peaks are too high")

# Settings.
nnpack_enabled: Callable[[], bool] = now("torch._C._get_nnpack_enabled", "live cannot tell whether NNPACK is used")
set_nnpack_enabled: Callable[[bool], None] = now("torch._C._set_nnpack_enabled", "live cannot change whether it is")
sm_carveout: Callable[[], int | None] = now(
    "torch._C._get_sm_carveout_experimental", "live runs ops again on all multiprocessors", "2.7.1"
)
set_sm_carveout: Callable[[int | None], None] = now(
    "torch._C._set_sm_carveout_experimental", "live runs ops again on all multiprocessors", "2.7.1"
)

# Storages and ops.
known("torch.UntypedStorage._cdata", "storages are not told from each other: nothing is recorded")
known("torch.UntypedStorage._swap_data_ptr_", "coopsim.live needs a C++ compiler", "2.12.1")
known("torch.UntypedStorage._write_file", "coopsim.live does not notice that an evicted storage is written to a file")
known(
    "torch.UntypedStorage._new_with_weak_ptr",
    "live's observer cannot show a storage that it keeps; live loses storages before PyTorch 2.10",
)
storage_at: Callable[..., Any] = now(
    "torch._C._construct_storage_from_data_pointer", "coopsim.live cannot empty storages"
)
set_error_of_reading: Callable[[int, str], None] = now(
    "torch._C._set_storage_data_ptr_access_error_msg", "coopsim.live needs a C++ compiler"
)
known("torch.ops.aten.add.Tensor._schema", "what an op reads and changes is not known: nothing is recorded")
known("torch.ops.profiler._record_function_enter.default", "a DataLoader's marks make a step leave its plan")
known("torch.ops.profiler._record_function_enter_new.default", "a DataLoader's marks make a step leave its plan")
known("torch.ops.profiler._record_function_exit.default", "a DataLoader's marks make a step leave its plan")
known("torch.ops.profiler._record_function_exit._RecordFunction", "a DataLoader's marks make a step leave its plan")

# The dispatcher's state.
included_keys: Callable[[], Any] = now(
    "torch._C._dispatch_tls_local_include_set", "DTensor's random ops stop a script that is watched"
)
known("torch._ops.key_extractor", "DTensor's random ops stop a script that is watched")
disabled_torch_dispatch: Any = now(
    "torch._C._disabled_torch_dispatch_impl", "tensors that dispatch their ops themselves are not told from others"
)
get_dispatch_mode: Callable[[Any], Any] = now("torch._C._get_dispatch_mode", "ops of fake tensors are taken for real")
FAKE_MODE: Any = now("torch._C._TorchDispatchModeKey.FAKE", "ops of fake tensors are taken for real")
DisableTorchDispatch: Callable[[], Any] = now("torch._C._DisableTorchDispatch", "coopsim.live sees its own ops")
DispatchBelowAutograd: Callable[[], Any] = now(
    "torch._C._AutoDispatchBelowAutograd", "what coopsim.live runs again is differentiated"
)
set_conjugate: Callable[[torch.Tensor, bool], None] = now(
    "torch._C._set_conj", "coopsim.live runs no op of conjugates again"
)
set_negative: Callable[[torch.Tensor, bool], None] = now(
    "torch._C._set_neg", "coopsim.live runs no op of negative views again"
)
DisableAutocast: Callable[[], Any] = now("torch._C._DisableAutocast", "what coopsim.live runs again is cast again")
dispatch_modes: Callable[[], int] = now(
    "torch._C._len_torch_dispatch_stack", "coopsim.live does not notice other dispatch modes"
)
pop_dispatch_mode: Callable[[Any], Any] = now(
    "torch._C._pop_torch_dispatch_stack", "coopsim.live cannot leave a step that failed"
)
modes_disabled: Callable[[], Any] = now(
    "torch.utils._python_dispatch._disable_current_modes", "torch.compile compiles nothing in a watched script"
)
mode_stack: Callable[[], list[Any]] = now(
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack", "guards of torch 2.7 and 2.8 fail at every call"
)
push_mode: Callable[[Any], None] = now(
    "torch.utils._python_dispatch._push_mode", "guards of torch 2.7 and 2.8 fail at every call"
)
pop_mode: Callable[[], Any] = now(
    "torch.utils._python_dispatch._pop_mode", "guards of torch 2.7 and 2.8 fail at every call"
)
tree_map: Callable[..., Any] = now("torch.utils._pytree.tree_map", "positions of tokens are not known on the phantom")
tree_leaves: Callable[..., list[Any]] = now(
    "torch.utils._pytree.tree_leaves", "positions of tokens are not known on the phantom"
)

# The caching allocator, and CUDA.
memory_snapshot: Callable[[], Any] = now("torch.cuda.memory._snapshot", "temporaries and the layout are not known")
record_history: Callable[..., None] = now("torch.cuda.memory._record_memory_history", "temporaries are not known")
set_memory_metadata: Callable[[str], None] = now(
    "torch.cuda.memory._set_memory_metadata", "temporaries are not known, and traces have none", "2.12.1"
)
known("torch._C._cuda_emptyCache", "replays of a long run do not empty the cache as the script does")
known("torch._C._accelerator_emptyCache", "replays of a long run do not empty the cache as the script does", "2.9.1")
attach_oom_observer: Callable[[Any], None] = now(
    "torch._C._cuda_attach_out_of_memory_observer", "what was held when memory ran out is not known"
)
call_when_initialized: Callable[[Callable[[], None]], None] = now(
    "torch.cuda._lazy_call", "`phantom run` does not learn when CUDA starts"
)
raw_stream: Callable[[int], int] = now("torch._C._cuda_getCurrentRawStream", "ops have no stream")
current_device: Callable[[], int] = now("torch._C._cuda_getDevice", "the phantom's clock cannot tell streams")
sleep_on_device: Callable[[int], None] = now("torch.cuda._sleep", "`capture --device cuda` cannot time ops")
device_index: Callable[..., int] = now(
    "torch.cuda._utils._get_device_index", "in an arena, mem_get_info answers for no device"
)
_ARENA = "in an arena, programs are told statistics of an allocator that is not used"


def memory_stats(device: int) -> dict[str, Any]:
    """Return the caching allocator's statistics of a device as nested dicts (torch.cuda.memory_stats_as_nested_dict).

    They are those of torch._C._cuda_memoryStats, or of what coopsim has put in its place by now.
    """
    found: dict[str, Any] = torch._C._cuda_memoryStats(device)
    return found


def reset_peak_stats(device: int) -> None:
    """Set the peaks in a device's `memory_stats` to the current values.

    By torch._C._cuda_resetPeakMemoryStats, or what coopsim has put in its place by now.
    """
    torch._C._cuda_resetPeakMemoryStats(device)


known("torch._C._cuda_memoryStats", "peaks of single steps are not known")
known("torch._C._cuda_resetPeakMemoryStats", "peaks of single steps are not known")
known("torch._C._cuda_resetAccumulatedMemoryStats", _ARENA)
known("torch._C._cuda_setMemoryFraction", _ARENA)
known("torch._C._cuda_getMemoryFraction", _ARENA)
known("torch._C._accelerator_getDeviceStats", _ARENA, "2.9.1")
known("torch._C._accelerator_resetPeakStats", _ARENA, "2.9.1")
known("torch._C._accelerator_resetAccumulatedStats", _ARENA, "2.9.1")

# The precision of float32 products.
_TF32 = "whether float32 products use TF32 is not known: costs have no basis"
FP32_PRECISION = "torch._C._get_fp32_precision_getter"  #: with the name of a backend and of a kind of op
fp32_precision: Callable[[str, str], str] = now(FP32_PRECISION, _TF32, "2.9.1")
cublas_allows_tf32: Callable[[], bool] = now("torch._C._get_cublas_allow_tf32", _TF32)
cudnn_allows_tf32: Callable[[], bool] = now("torch._C._get_cudnn_allow_tf32", _TF32)
cudnn_enabled: Callable[[], bool] = now("torch._C._get_cudnn_enabled", _TF32)

# Modules and optimizers.
_HOOKS = "torch.compile guards on coopsim's hooks, and compiles what it otherwise would not"
known("torch.nn.modules.module._global_forward_pre_hooks", _HOOKS)
known("torch.nn.modules.module._global_forward_hooks", _HOOKS)
known("torch.nn.modules.module._global_forward_hooks_always_called", _HOOKS)
known("torch.optim.optimizer._global_optimizer_pre_hooks", _HOOKS)
known("torch.optim.optimizer._global_optimizer_post_hooks", _HOOKS)
known("torch.optim.Optimizer._patch_step_function", "`live run` does not see where a step ends")
known("torch.optim.Optimizer._group_tensors_by_device_and_dtype", "optimizers read all their tensors in one op")
known("torch.amp.GradScaler.step:_step_supports_amp_scaling", "fused steps with a GradScaler fail in `fit`")
known("torch.nn.modules.batchnorm._BatchNorm", "`fit` does not say which blocks have running statistics")
known("torch.nn.Module._modules", "`fit` does not see the model inside a wrapper")

# torch.compile.
_COMPILED = "what a script compiles is not watched"
_KERNELS = "Inductor's kernels are not seen: they take no time, and are in no trace"
known("torch._dynamo.trace_rules.add", _COMPILED)
known("torch._dynamo.eval_frame._maybe_set_eval_frame", _COMPILED)
known("torch._dynamo.convert_frame.ConvertFrameAssert.__call__", _COMPILED)
known("torch._dynamo.convert_frame.CatchErrorsWrapper.__call__", _COMPILED)
known("torch._dynamo.guards.CheckFunctionManager.__init__", _COMPILED)
known("torch._dynamo.output_graph.GraphCompileReason.__post_init__", _COMPILED)
known("torch._dynamo.output_graph.OutputGraph.call_user_compiler", _COMPILED)
known("torch._dynamo.config", "TORCH_COMPILE_DISABLE is not noticed")
known("torch._dynamo.utils.counters", "coopsim.live does not refuse compiled programs")
known("torch._tensor_str", "printing a tensor counts as reading sizes that depend on data")
known("torch._TorchCompileInductorWrapper.__call__", "choices by measured times, and CUDA graphs, stay on")
known("torch._inductor.config", "choices by measured times, and CUDA graphs, stay on")
known("torch._inductor.runtime.triton_heuristics.CachingAutotuner.run", _KERNELS, "2.9.1")
known("torch._C._dynamo.guards._empty_strided_cuda", "Inductor's buffers are in no trace")
known("torch._functorch.config", "`fit` cannot set PyTorch's activation_memory_budget")

known("torch.nn.Module._apply", "parameters that are replaced before the first step count as activations")
known("torch._C._cuda_clearCublasWorkspaces", "cuBLAS's workspaces count as other memory")

# Jobs of several ranks.
known("torch.distributed.Backend._plugins", "other ranks cannot be imagined")
known("torch.distributed.ProcessGroup._get_backend", "the phantom's clock does not know NCCL's groups")
known("torch.distributed.distributed_c10d._new_process_group_helper", "other ranks cannot be imagined")
known("torch.distributed.distributed_c10d._get_object_coll_device", "objects go through the phantom's memory")
known("torch._C._distributed_c10d._create_work_from_future", "DDP over Gloo with tensors on the card gets no sums")
known(
    "torch._C._distributed_c10d.Reducer._get_zeros_like_grad_buckets",
    "live's steps without a plan end with an error under DistributedDataParallel",
)
known("torch.distributed.pipelining.stage._PipelineStageBase", "stages of a pipeline are run alone")
known("torch.distributed.checkpoint.default_planner._validate_global_plan", "a rank alone saves no checkpoint")
known("torch.testing._internal.distributed.fake_pg", "other ranks cannot be imagined")
known("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "`fit` cannot recompute blocks of plain modules")

#: The C++ class that coopsim's libraries wrap (interpose/library.py; without it live has no observer and is slower):
#: its header below torch/include, and a pattern for its pure virtual functions: result type, name, parameters.
INTERPRETER_HEADER = "c10/core/impl/PyInterpreter.h"
INTERPRETER_FUNCTION = re.compile(r"virtual\s+([\w:<>*&\s]+?)\s*\b(\w+)\(([^;{]*?)\)\s*const\s*=\s*0\s*;")
