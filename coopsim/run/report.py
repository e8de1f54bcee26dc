"""The report of a script's run on the phantom GPU."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from coopsim.run import memory
from coopsim.run.process import ScriptFigures

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


@dataclass(kw_only=True)
class Report(ScriptFigures):
    """A run, with the figures of the process that reserved most; it is not changed once it is made.

    `outcome` is "oom" if memory ran out and the script failed, or caught that and took no optimizer step afterwards.
    `masks` says what share of their elements masks keep ("all", "half", "none"), on which the sizes in `needs_data`
    depend; `other_masks` holds the figures with the other bound, if it was run. `processes` is how many processes of
    the script used the GPU. `smallest_memory_bytes` is the smallest card's memory, context included, found by
    `fit_runs` runs; None if it was not searched for. In a job of `world_size` ranks, `ranks_per_node` of them per
    machine of `cards_per_node` cards, `ranks` holds a report of each rank that was run, and the other fields are those
    of one of them: of those that ran out of memory, or else of all, the one that reserved most. `host_ran_out` says
    where and how the host's memory ran out, which ended the run, and the figures are of what it did until then; "" if
    it did not. `replay` is the verdict on a long run (longrun/verdict.py), if one was asked for.
    """

    command: list[str]
    gpu: str
    memory_bytes: int
    outcome: Outcome
    processes: int
    masks: str = "all"
    other_masks: Bound | None = None
    smallest_memory_bytes: int | None = None
    fit_runs: int | None = None
    rank: int = 0
    world_size: int = 1
    ranks_per_node: int = 1
    cards_per_node: int = 1
    replay: dict[str, Any] | None = None
    interrupted: bool = False
    host_ran_out: str = ""
    ranks: tuple["Report", ...] = ()

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

    def full_after(self, memory_bytes: int) -> int | None:
        """Return the step by which a card is full if memory goes on growing; None if it does not grow, or is too large.

        What was allocated only before the last step, as while a model is loaded, has room for what grows.
        """
        if not self.growth or not self.growth["bytes_per_step"] or self.peak_device_bytes > memory_bytes:
            return None
        steady = self.steady_peak_allocated_bytes or self.peak_allocated_bytes
        left = memory_bytes - self.peak_device_bytes + self.peak_allocated_bytes - steady
        return int(self.growth["last"] + left // self.growth["bytes_per_step"])

    @property
    def reserved_but_unallocated(self) -> float:
        """1 - peak allocated ÷ peak reserved bytes; 0.0 if nothing was reserved."""
        return 1 - self.peak_allocated_bytes / self.peak_reserved_bytes if self.peak_reserved_bytes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as `--json` prints it: its fields but some for `fit`, and what follows from them.

        `ranks` has such a dict for each rank; without ranks, one, of the run itself.
        """
        part = self.reserved_but_unallocated
        own = dict.fromkeys(("command", "gpu", "memory_bytes", "outcome")) | asdict(replace(self, ranks=()))
        own["reserved_but_unallocated"] = part
        own["too_close_to_call"] = self.too_close_to_call
        del own["plugin"], own["evaluation_peaks"]
        if not self.ranks:
            return own | {"ranks": [{key: own[key] for key in own if key != "ranks"}]}
        return own | {"ranks": [one for report in self.ranks for one in report.to_dict()["ranks"]]}
