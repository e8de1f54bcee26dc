"""The report of a script's run on the phantom GPU: as values, as `--json` prints it, and as text."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from coopsim.base.text import count, human, listed
from coopsim.cards import profiles
from coopsim.run import memory
from coopsim.run.figure import REQUIRED, Row, declared, figure
from coopsim.run.records import KEPT, OutOfMemory
from coopsim.run.records_memory import PhasePeaks
from coopsim.run.script_figures import ScriptFigures

if TYPE_CHECKING:
    from coopsim.run.longrun.replay import Replay

Outcome = Literal["ok", "oom"]
#: The figures with rows in the text, in its order; others come below them.
_ORDER = (
    *("gpu", "ranks", "outcome", "peak_allocated_bytes", "peak_by_kind", "peak_active_bytes", "peak_reserved_bytes"),
    *("peak_device_bytes", "managed_bytes", "memory_fraction", "phases", "no_backward", "unused", "host", "growth"),
    *("replay", "compiled_graphs", "retries", "smallest_memory_bytes", "too_close_to_call", "masks", "out_of_memory"),
)


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

    def __str__(self) -> str:
        if self.failure:
            return f"if they keep {KEPT[self.masks]}, the script fails: {self.failure}"
        assert self.peak_allocated_bytes is not None
        assert self.peak_reserved_bytes is not None
        peaks = f"{human(self.peak_allocated_bytes)} allocated, {human(self.peak_reserved_bytes)} reserved"
        ends = "it trains" if self.outcome == "ok" else "memory runs out, too"
        return f"if they keep {KEPT[self.masks]}: {peaks} at the peaks, and {ends}"


@dataclass(kw_only=True)
class Run:
    """What was run on which card, and how it ended: the first figures of a report.

    `outcome` is "oom" if memory ran out and the script failed, or caught that and took no optimizer step afterwards.
    """

    command: list[str] = figure(REQUIRED, "what was run, and on what")
    gpu: str = figure(
        REQUIRED, rows=lambda r: [("GPU", f"{profiles.get(r.gpu).title} with {human(r.memory_bytes)}, imitated")]
    )
    memory_bytes: int = figure(REQUIRED)
    outcome: Outcome = figure(
        REQUIRED, "`ok`, `oom`", rows=lambda r: [("outcome", r.failed.title if r.failed else _trained(r))]
    )


def _trained(report: "Report") -> str:
    """How far it came."""
    steps = count(report.steps, "optimizer step")
    if report.host_ran_out:
        return f"the host's memory ran out after {steps}; the figures are of what ran"
    if report.interrupted:
        return f"interrupted after {steps}; the figures are of what ran"
    if not report.steps:
        return "ended without an optimizer step"
    return f"trained: {steps}" + (", as asked for" if report.ended_early else "")


def _ranks(report: "Report") -> Iterator[Row]:
    """Which ranks were run, and what each took."""
    ran, of = report.ranks, report.world_size
    if len(ran) == 1 < of:
        yield "rank", f"{report.rank} of {of}, the others imagined; errors of theirs: --ranks all"
    elif ran:
        alone = "" if len(ran) == of else ", each alone with the others imagined"
        yield "ranks", f"{len(ran)} of {of} ran{alone}; below is rank {report.rank}"
        for one in ran:
            said = "out of memory" if one.outcome == "oom" else f"{human(one.peak_allocated_bytes)} allocated"
            peaks = f"{said}, {human(one.peak_reserved_bytes)} reserved, {human(one.peak_device_bytes)} of the card"
            yield f"  rank {one.rank}", peaks


def _smallest(report: "Report") -> Iterator[Row]:
    nbytes = report.smallest_memory_bytes
    if nbytes is not None:
        yield (
            "smallest memory",
            f"{human(nbytes)} ({nbytes >> 20} MiB) trains, the context included, and 2 MiB less does not "
            f"({count(report.fit_runs or 0, 'run')})",
        )


def _too_close(report: "Report") -> Iterator[Row]:
    if report.too_close_to_call:
        why = memory.in_words(report.needs_bytes, report.memory_bytes)
        why += memory.of_context(report.needs_bytes, report.memory_bytes, profiles.get(report.gpu).context)
        yield "too close", f"to call: needs {human(report.needs_bytes)}, {why}"


def _masks(report: "Report") -> Iterator[Row]:
    """What masks keep, and the figures with the other bound, if a size depends on a mask."""
    if report.depends_on_masks or report.other_masks is not None:
        yield "masks", f"keep {report.kept_by_masks} (--masks)"
    if report.other_masks is not None:
        yield "", str(report.other_masks)


@dataclass(kw_only=True)
class Report(ScriptFigures, Run):
    """A run, with the figures of the process that reserved most; it is not changed once it is made.

    In a job of `world_size` ranks, `ranks` holds a report of each rank that was run, and the other fields are those of
    one of them: of those that ran out of memory, or else of all, the one that reserved most. `host_ran_out` says
    where and how the host's memory ran out, which ended the run, and the figures are of what it did until then; "" if
    it did not. `smallest_memory_bytes` is None if it was not searched for.
    """

    processes: int = figure(
        REQUIRED, "how many processes of the script used the GPU; the figures are of the one that reserved most"
    )
    masks: str = figure("all", "what masks keep in these figures: `all`, `half`, `none`", rows=_masks)
    other_masks: Bound | None = figure(
        None,
        "the [other bound](../phantom-run.md#data-on-the-device): `masks`, `outcome`, `peak_allocated_bytes`, "
        "`peak_reserved_bytes`, `peak_device_bytes`, or `failure`, why the script fails with it; null if nothing "
        "depends on masks",
    )
    smallest_memory_bytes: int | None = figure(
        None, "of `--fit`: the card's memory, context included; whole runs that it took", rows=_smallest
    )
    fit_runs: int | None = figure(None)
    rank: int = figure(
        0,
        "of a job of [many ranks](../many-ranks.md): the rank that all other keys describe (the one that reserved "
        "most, of those that ran out of memory if any did); how many there are in all, and per machine; how many cards "
        "a machine has. For any other program 0, 1, 1, 1",
    )
    world_size: int = figure(1)
    ranks_per_node: int = figure(1)
    cards_per_node: int = figure(1)
    replay: "Replay | None" = figure(
        None,
        "[the replay of a long run](#replay-of-a-long-run), or null",
        rows=lambda r: r.replay.rows() if r.replay else [],
    )
    replay_needs_bytes: int | None = None  #: the smallest memory in which the replay does not run out (longer.py)
    interrupted: bool = figure(
        False,
        "whether it was ended by Ctrl-C, and the figures are of what it did until then; where and how the host's "
        'memory ran out, or ""',
    )
    host_ran_out: str = figure("")
    ranks: tuple["Report", ...] = figure(
        (), "these keys for each rank that was run; for a program without ranks, one entry", rows=_ranks
    )
    reserved_but_unallocated: float = figure(
        0.0, "1 - peak allocated ÷ peak reserved; 0 if nothing was reserved", init=False
    )
    too_close_to_call: bool = figure(
        False,
        "true if what the script needs is within 6 % of the card's memory; with `--largest` a list of such numbers",
        rows=_too_close,
        init=False,
    )

    def __post_init__(self) -> None:
        if self.peak_reserved_bytes:
            self.reserved_but_unallocated = 1 - self.peak_allocated_bytes / self.peak_reserved_bytes
        known = self.outcome == "ok" or self.smallest_memory_bytes is not None  # what it needs
        self.too_close_to_call = known and memory.is_close(self.needs_bytes, self.memory_bytes)

    @property
    def depends_on_masks(self) -> bool:
        """Whether an op's size was taken from data of which nothing is known, so by what masks are taken to keep."""
        return any(need.by == "masks" for need in self.needs_data)

    @property
    def kept_by_masks(self) -> str:
        """What masks were taken to keep, in words: "half of their elements"."""
        return KEPT[self.masks] + (", an upper bound on allocated bytes" if self.masks == "all" else "")

    @property
    def failed(self) -> OutOfMemory | None:
        """What was in memory when it ran out, if the script failed by that."""
        return self.out_of_memory if self.outcome == "oom" else None

    @property
    def evaluation(self) -> PhasePeaks:
        """The peaks of its evaluation; zeros without one."""
        found = self.phases.get("evaluation")
        return found if isinstance(found, PhasePeaks) else PhasePeaks()

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
    def limit_bytes(self) -> int | None:
        """The bytes of the card that PyTorch's allocator may use, if the script limits it; else None."""
        return None if self.memory_fraction is None else int(self.memory_fraction * self.memory_bytes)

    def full_after(self, memory_bytes: int) -> int | None:
        """Return the step by which a card is full if memory goes on growing; None if it does not grow, or is too large.

        What was allocated only before the last step, as while a model is loaded, has room for what grows.
        """
        if not self.growth or not self.growth.bytes_per_step or self.peak_device_bytes > memory_bytes:
            return None
        steady = self.steady_peak_allocated_bytes or self.peak_allocated_bytes
        left = memory_bytes - self.peak_device_bytes + self.peak_allocated_bytes - steady
        return self.growth.last + left // self.growth.bytes_per_step

    def to_dict(self) -> dict[str, Any]:
        """Return the report as `--json` prints it: its figures; `ranks` has such a dict for each rank that was run.

        Without ranks it has one, of the run itself.
        """
        said = asdict(replace(self, ranks=()))
        own = {name: said[name] for name in declared(Report)} | {"host": said["host"] or {}}
        if not self.ranks:
            return own | {"ranks": [{key: own[key] for key in own if key != "ranks"}]}
        return own | {"ranks": [one for report in self.ranks for one in report.to_dict()["ranks"]]}

    @property
    def cautions(self) -> list[str]:
        """Lines on what may make the figures wrong, as `fit` and the gate print them, too."""
        return [line for of in declared(Report).values() if of.cautions for line in of.cautions(self)]

    @property
    def about_masks(self) -> list[str]:
        """Lines on what masks keep; [] if no size depends on one."""
        return [text for _, text in _masks(self)]

    def __str__(self) -> str:
        known = declared(Report)
        names = [*_ORDER, *(name for name in known if name not in _ORDER)]
        rows = [row for name in names if (of := known[name].rows) for row in of(self)]
        lines = [line for of in known.values() if of.lines for line in of.lines(self)]
        return "\n".join([listed(rows, 16), *lines, *self.cautions])
