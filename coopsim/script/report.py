"""The report of a script's run on the phantom GPU."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from coopsim.script import memory
from coopsim.script.process import OutOfMemory

Outcome = Literal["ok", "oom"]


@dataclass(frozen=True)
class Bound:
    """What a script takes if masks keep another share of their elements: `masks` as in Report.

    `failure` says why the script failed; the other fields are None then.
    """

    masks: str
    outcome: Outcome | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_device_bytes: int | None = None
    failure: str = ""

    @classmethod
    def of(cls, report: "Report") -> "Bound":
        """Return the bound of a run that ended with a report: what masks kept in it, its outcome and its peaks."""
        peaks = report.peak_allocated_bytes, report.peak_reserved_bytes, report.peak_device_bytes
        return cls(report.masks, report.outcome, *peaks)


@dataclass(frozen=True)
class Report:
    """A run. Peaks are of the caching allocator, in bytes; `peak_device_bytes` is all memory taken of the card.

    `outcome` is "oom" if memory ran out and the script failed, or caught that and took no optimizer step afterwards.
    `needs_data` are ops whose results have sizes that depend on data, which the phantom does not have: `masks` says
    what share of the elements they keep ("all", "half", "none"), `other_masks` holds the figures with the other bound,
    if it was run. `loops_ended` are loops that wait for a value of the device, and were ended. `graph_breaks` are where
    torch.compile's graphs end. Peaks of the first step are those until its end, steady ones those of the last step;
    None before there is one. `processes` is how many processes of the script used the GPU; the figures are those of the
    one that reserved most. `smallest_memory_bytes` is the smallest card's memory, context included, found by `fit_runs`
    runs; None if it was not searched for. In a job of `world_size` ranks, `ranks_per_node` of them per machine of
    `cards_per_node` cards, `ranks` holds a report of each rank that was run, and the other fields are those of one of
    them: of those that ran out of memory, or else of all, the one that reserved most. `nccl_bytes` is an estimate of
    what NCCL allocated. `managed_bytes` is the peak of managed memory, which migrates between host and card and is in
    no other figure. `memory_fraction` is the fraction of the card to which the script limits PyTorch's allocator; None:
    all of it. `peak_by_kind` breaks down the peak of allocated memory (watching/kinds.py). `pipeline` is the number of
    ranks of the pipeline of which this was run as a stage (else 0), `alike` are the ranks that were not run because
    they are taken to be like this one, `between` the ranks that were not run and lie between this one and the next that
    was, which differs. `host_ran_out`: the run ended as the host's memory ran out, and the figures are of what it did
    until then. `growth` is what the script keeps from step to step (watching/growth.py); None if its memory does not
    grow, or there were too few steps to tell. `ended_early`: coopsim ended the script after a step, as asked for or as
    it was `interrupted`.
    """

    command: list[str]
    gpu: str
    memory_bytes: int
    context_bytes: int
    outcome: Outcome
    steps: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_requested_bytes: int
    peak_device_bytes: int
    retries: int
    ooms: int
    processes: int
    versions: dict[str, str]
    needs_data: list[dict[str, Any]] = field(default_factory=list)
    masks: str = "all"
    other_masks: Bound | None = None
    loops_ended: list[dict[str, Any]] = field(default_factory=list)
    compiled_graphs: int = 0
    graph_breaks: list[dict[str, Any]] = field(default_factory=list)
    default_choices: bool = False  #: the script asked Inductor to choose by measured times, which do not exist here
    first_step_peak_reserved_bytes: int | None = None
    steady_peak_reserved_bytes: int | None = None
    steady_peak_allocated_bytes: int | None = None
    out_of_memory: OutOfMemory | None = None
    smallest_memory_bytes: int | None = None
    fit_runs: int | None = None
    rank: int = 0
    world_size: int = 1
    ranks_per_node: int = 1
    cards_per_node: int = 1
    nccl_bytes: int = 0
    managed_bytes: int = 0
    memory_fraction: float | None = None
    peak_by_kind: dict[str, int] = field(default_factory=dict)
    benchmarked: bool = False  #: cudnn.benchmark chooses convolutions by measured times, which do not exist here
    watched_by_mode: bool = False  #: coopsim's library cannot be compiled here, so that autograd may take more memory
    pipeline: int = 0
    alike: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    growth: dict[str, Any] | None = None
    phases: dict[str, dict[str, int]] = field(default_factory=dict)  #: peaks of evaluation and generation (peaks.py)
    host: dict[str, Any] = field(default_factory=dict)  #: memory of the host (watching/host.py)
    lost: dict[str, str] = field(default_factory=dict)  #: parts of the report that failed, with the reason
    unused: list[dict[str, Any]] = field(default_factory=list)  #: tensors that no step reads (watching/kept.py)
    replay: dict[str, Any] | None = None  #: the verdict on a long run (longrun/verdict.py), if one was asked for
    ended_early: bool = False
    interrupted: bool = False
    ranks: tuple["Report", ...] = ()
    input_sizes: dict[str, Any] | None = None  #: of the models' inputs, where they vary (watching/calls.py)
    no_backward: int = 0  #: calls of models with gradients, where no backward pass followed any
    host_ran_out: str = ""  #: where and how the host's memory ran out; "" if it did not
    evaluation_peaks: tuple[int, ...] = ()  #: peaks of allocated bytes, of each batch of an evaluation (peaks.py)
    evaluation_keeps: list[dict[str, Any]] = field(default_factory=list)  #: variables that keep some of each batch
    plugin: dict[str, Any] = field(default_factory=dict)  #: what the task's plugin reported (running/plugin.py)

    @property
    def depends_on_masks(self) -> bool:
        """Whether an op's size was taken from data of which nothing is known, so by what masks are taken to keep."""
        return any(need["by"] == "masks" for need in self.needs_data)

    @property
    def needs_bytes(self) -> int:
        """The smallest memory of a card with which it trains, context included; without `--fit`, a lower bound.

        The bound is the context, the peak of allocated bytes and NCCL's memory. The true value may be more: by what
        fragmentation leaves unusable after the allocator has emptied its cache (mostly a few MiB) and, of a script that
        ran out of memory, by all that it would have allocated after that.
        """
        least = self.context_bytes + self.peak_allocated_bytes + self.nccl_bytes
        return self.smallest_memory_bytes or least

    @property
    def too_close_to_call(self) -> bool:
        """Whether its need is so close to the card's memory that a real card may differ; False if it is unknown.

        It is known if the script trained, or if the smallest memory was searched for.
        """
        known = self.outcome == "ok" or self.smallest_memory_bytes is not None
        return known and memory.is_close(self.needs_bytes, self.memory_bytes)

    @property
    def limit_bytes(self) -> int | None:
        """The bytes of the card that PyTorch's allocator may use, if the script limits it; else None."""
        return None if self.memory_fraction is None else int(self.memory_fraction * self.memory_bytes)

    @property
    def reserved_but_unallocated(self) -> float:
        """1 - peak allocated ÷ peak reserved bytes; 0.0 if nothing was reserved."""
        return 1 - self.peak_allocated_bytes / self.peak_reserved_bytes if self.peak_reserved_bytes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as `--json` prints it: its fields but `plugin`, and what follows from them.

        `ranks` has such a dict for each rank; without ranks, one, of the run itself.
        """
        part = self.reserved_but_unallocated
        own = asdict(replace(self, ranks=())) | {"reserved_but_unallocated": part}
        own["too_close_to_call"] = self.too_close_to_call
        del own["plugin"], own["evaluation_peaks"]
        if not self.ranks:
            return own | {"ranks": [{key: own[key] for key in own if key != "ranks"}]}
        return own | {"ranks": [one for report in self.ranks for one in report.to_dict()["ranks"]]}
