"""What one process of a script reports, in types; it crosses to the process that started it as JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from coopsim.base.text import human


@dataclass(frozen=True)
class ScriptError:
    """The error that ended a process. `place`: the user's line (file:line, "" if unknown); `error`: what is said of it.

    `functions` are those of the user's that were under way: name of the file, first line, line that was running.
    """

    place: str
    error: str
    functions: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Held:
    """A group of storages of one role that one op of one module made: their number, and their bytes in total."""

    role: str
    op: str
    module: str
    storages: int
    bytes: int


@dataclass(frozen=True)
class OutOfMemory:
    """What was in memory when an allocation failed, the last time that memory ran out.

    `place` is the user's line (file:line, "" if unknown); `op` and `module` are what was running, in `phase` of `step`,
    counted from 1. `held_bytes` are the live bytes by role, where "other" is memory of no tensor: workspaces and
    temporaries. `largest` are the largest groups of storages. `memory_fraction` is the fraction of the card to which
    the script limits PyTorch's allocator; None: all of it. `batch` is the number of the call of a model in an
    evaluation, from 1, and `batches` how many batches its data loader has, where known; else they are 0.
    """

    place: str
    op: str
    module: str
    phase: str
    step: int
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    largest_free_block_bytes: int
    device_free_bytes: int
    held_bytes: dict[str, int]
    largest: list[Held]
    memory_fraction: float | None = None
    batch: int = 0
    batches: int = 0

    @property
    def title(self) -> str:
        """One line that says where in the script memory ran out."""
        at = f" at {self.place}" if self.place else ""
        return f"out of memory{at}, {self.when}"

    @property
    def when(self) -> str:
        """The phase of the step, or the batch of an evaluation, in words."""
        if not self.batch:
            return f"{self.phase} of step {self.step}"
        of = f" of {self.batches}" if self.batches >= self.batch else ""
        after = f" after step {self.step - 1}" if self.step > 1 else ""
        return f"{self.phase}{after}, batch {self.batch}{of}"

    @property
    def held(self) -> str:
        """One line with `held_bytes`, the live bytes by role, the largest first; "" if there are none."""
        return ", ".join(f"{role} {human(nbytes)}" for role, nbytes in self.held_bytes.items() if nbytes)


@dataclass(kw_only=True)
class ScriptFigures:
    """What one process did and took: the fields of both its own report and that of the whole run (report.py).

    Peaks are of the caching allocator, in bytes; `peak_device_bytes` is all memory taken of the card. Peaks of the
    first step are those until its end, steady ones those of the last step; None before there is one. `peak_by_kind`
    breaks down the peak of allocated memory (probes/kinds.py). `nccl_bytes` is an estimate of what NCCL allocated.
    `managed_bytes` is the peak of managed memory, which migrates between host and card and is in no other figure.
    `memory_fraction` is the fraction of the card to which the script limits PyTorch's allocator; None: all of it.
    `needs_data` are ops whose results have sizes that depend on data, which the phantom does not have. `loops_ended`
    are loops that wait for a value of the device, and were ended. `graph_breaks` are where torch.compile's graphs end.
    `growth` is what the script keeps from step to step (probes/growth.py); None if its memory does not grow, or there
    were too few steps to tell. `ended_early`: coopsim ended the script after a step, as asked for or as it was
    interrupted.
    """

    versions: dict[str, str] = field(default_factory=dict)
    context_bytes: int = 0
    steps: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    peak_requested_bytes: int = 0
    peak_active_bytes: int = 0  #: with blocks that were freed and that another stream still uses (record_stream)
    peak_device_bytes: int = 0
    retries: int = 0
    ooms: int = 0
    needs_data: list[dict[str, Any]] = field(default_factory=list)
    loops_ended: list[dict[str, Any]] = field(default_factory=list)
    compiled_graphs: int = 0
    graph_breaks: list[dict[str, Any]] = field(default_factory=list)
    default_choices: bool = False  #: the script asked Inductor to choose by measured times, which do not exist here
    first_step_peak_reserved_bytes: int | None = None
    steady_peak_reserved_bytes: int | None = None
    steady_peak_allocated_bytes: int | None = None
    out_of_memory: OutOfMemory | None = None
    nccl_bytes: int = 0
    managed_bytes: int = 0
    memory_fraction: float | None = None
    peak_by_kind: dict[str, int] = field(default_factory=dict)
    benchmarked: bool = False  #: cudnn.benchmark chooses convolutions by measured times, which do not exist here
    garbage_bytes: int = 0  #: the most that a run of Python's garbage collector freed of the card (probes/garbage.py)
    left_out_workspace_bytes: int = 0  #: of the largest that cuDNN was asked for and that is not counted
    watched_by_mode: bool = False  #: coopsim's library cannot be compiled here, so that autograd may take more memory
    growth: dict[str, Any] | None = None
    phases: dict[str, dict[str, int]] = field(default_factory=dict)  #: peaks of evaluation and generation (peaks.py)
    host: dict[str, Any] = field(default_factory=dict)  #: memory of the host (probes/host.py)
    lost: dict[str, str] = field(default_factory=dict)  #: parts of the report that failed, with the reason
    unused: list[dict[str, Any]] = field(default_factory=list)  #: tensors that no step reads (probes/kept.py)
    ended_early: bool = False
    input_sizes: dict[str, Any] | None = None  #: of the models' inputs, where they vary (probes/calls.py)
    no_backward: int = 0  #: calls of models with gradients, where no backward pass followed any
    evaluation_peaks: tuple[int, ...] = ()  #: peaks of allocated bytes, of each batch of an evaluation (peaks.py)
    evaluation_keeps: list[dict[str, Any]] = field(default_factory=list)  #: variables that keep some of each batch
    plugin: dict[str, Any] = field(default_factory=dict)  #: what the task's plugin reported (launch/plugin.py)


@dataclass(kw_only=True)
class ProcessReport(ScriptFigures):
    """What a process was, did and took; the probes (probes/) fill it, each its own fields.

    `used`: whether it used the GPU; if not, only `versions`, `unmet`, `error` and `failure` say anything. `unmet`: why
    it cannot be observed on the phantom GPU, "" if it can; `compile_unmet`: why a graph of torch.compile could not be
    compiled here. `failure`: why watching it failed. `compile_asked`: whether a compiled function was called.
    `gave_up`: memory ran out in training, and no optimizer step followed. `last_value_read`: op and place of the last
    read of a value that only a card would have. `trace`: what became of the trace (trace.py). `graphs_off`: Inductor
    was kept from making CUDA graphs.
    """

    used: bool = False
    unmet: str = ""
    error: ScriptError | None = None
    failure: str = ""
    gave_up: bool = False
    compile_asked: bool = False
    compile_unmet: str = ""
    last_value_read: dict[str, str] | None = None
    trace: str = ""
    graphs_off: bool = False

    def message(self) -> str:
        """Return the report as JSON, for `read`."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, message: str) -> "ProcessReport":
        """Return the report that `message` was made of."""
        found = json.loads(message)
        if (error := found["error"]) is not None:
            found["error"] = ScriptError(**error | {"functions": tuple(map(tuple, error["functions"]))})
        if (out := found["out_of_memory"]) is not None:
            found["out_of_memory"] = OutOfMemory(**out | {"largest": [Held(**group) for group in out["largest"]]})
        return cls(**found | {"evaluation_peaks": tuple(found["evaluation_peaks"])})
