"""What one process of a script reports, in types; it crosses to the process that started it as JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from coopsim.text import human


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


@dataclass
class ProcessReport:
    """What a process was, did and took. Fields that Report has, too, mean the same there.

    `used`: whether it used the GPU; if not, only `versions`, `unmet`, `error` and `failure` say anything. `unmet`: why
    it cannot be observed on the phantom GPU, "" if it can; `compile_unmet`: why a graph of torch.compile could not be
    compiled here. `failure`: why watching it failed. `compile_asked`: whether a compiled function was called.
    `gave_up`: memory ran out in training, and no optimizer step followed. `last_value_read`: op and place of the last
    read of a value that only a card would have. `no_backward`: calls of models with gradients, where no backward pass
    followed any. `trace`: what became of the trace (trace.py). `graphs_off`: Inductor
    was kept from making CUDA graphs. `plugin`: what the task's plugin reported.
    """

    used: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    unmet: str = ""
    error: ScriptError | None = None
    failure: str = ""
    plugin: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    peak_requested_bytes: int = 0
    first_step_peak_reserved_bytes: int | None = None
    steady_peak_reserved_bytes: int | None = None
    steady_peak_allocated_bytes: int | None = None
    peak_device_bytes: int = 0
    context_bytes: int = 0
    nccl_bytes: int = 0
    managed_bytes: int = 0
    memory_fraction: float | None = None
    retries: int = 0
    ooms: int = 0
    out_of_memory: OutOfMemory | None = None
    gave_up: bool = False
    ended_early: bool = False
    phases: dict[str, dict[str, int]] = field(default_factory=dict)
    evaluation_peaks: tuple[int, ...] = ()
    evaluation_keeps: list[dict[str, Any]] = field(default_factory=list)
    compiled_graphs: int = 0
    graph_breaks: list[dict[str, Any]] = field(default_factory=list)
    compile_asked: bool = False
    compile_unmet: str = ""
    default_choices: bool = False
    needs_data: list[dict[str, Any]] = field(default_factory=list)
    loops_ended: list[dict[str, Any]] = field(default_factory=list)
    last_value_read: dict[str, str] | None = None
    benchmarked: bool = False
    watched_by_mode: bool = False
    trace: str = ""
    graphs_off: bool = False
    host: dict[str, Any] = field(default_factory=dict)
    unused: list[dict[str, Any]] = field(default_factory=list)
    input_sizes: dict[str, Any] | None = None
    no_backward: int = 0
    peak_by_kind: dict[str, int] = field(default_factory=dict)
    growth: dict[str, Any] | None = None
    lost: dict[str, str] = field(default_factory=dict)

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
