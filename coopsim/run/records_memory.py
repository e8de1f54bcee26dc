"""What a run keeps and takes, part by part: the records of its report, in types that JSON can represent."""

from dataclasses import dataclass

from coopsim.base.text import count, human
from coopsim.run.figure import Row, listed
from coopsim.run.records import at


@dataclass(frozen=True)
class UnusedVariable:
    """A variable whose tensors no step reads: `tensors` of them with `bytes` in all. `place`: file:line that makes it.

    `kind` is the type of its value, `file` the path of its file; `place` is "" if the line is not found. `later`: it
    was made after the first steps.
    """

    name: str
    kind: str
    file: str
    place: str
    tensors: int
    bytes: int
    later: bool = False

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        tensors = count(self.tensors, "tensor")
        return f"{self.name}{at} keeps {human(self.bytes)} on the card, {tensors} that no step reads"


@dataclass(frozen=True)
class Holder:
    """A variable that refers to tensors of earlier steps: `tensors` of them, with `bytes` in all.

    `nodes` is the length of the autograd graph that it holds, counted to 20 000; 0 if that does not grow. `place` is
    the line that changes the variable, "" if it is not found.
    """

    name: str
    kind: str
    place: str
    tensors: int
    bytes: int
    nodes: int

    def said(self, what: str) -> str:
        """The variable, and what it keeps."""
        return f"{self.name} ({self.kind}){at(self.place)}: {what}"

    @property
    def of_steps(self) -> str:
        """What it keeps of earlier steps, in words."""
        if self.tensors:
            return self.said(f"{self.tensors} tensors of earlier steps, {human(self.bytes)}")
        if self.nodes:
            return self.said(f"an autograd graph that grows, of {self.nodes} nodes")
        return self.said(f"{human(self.bytes)}, more at each step")

    @property
    def of_batches(self) -> str:
        """What it keeps of an evaluation's batches, in words."""
        return self.said(f"{count(self.tensors, 'tensor')} of earlier batches, {human(self.bytes)}")


@dataclass(frozen=True)
class GrowingStorages:
    """Storages of one maker, of which every step leaves more: by how many bytes per step, and the line that makes them.

    `op` and `module` made them; `place` is file:line of the user's, "" if it is not known.
    """

    op: str
    module: str
    place: str
    bytes_per_step: int

    @property
    def by(self) -> str:
        """The op and its module, in words."""
        return f"by {self.op or 'ops that were not seen'}" + (f" in {self.module}" if self.module else "")

    def __str__(self) -> str:
        return f"{human(self.bytes_per_step):>10}  {self.by}{at(self.place)}"


@dataclass(frozen=True)
class Growth:
    """Memory that grew from the end of step `first` to that of step `last`, by `bytes_per_step` in the mean.

    0 bytes: it is an autograd graph that grew, in the memory of the host.
    `held` is what it consists of, the largest part first. `kept_in` are the variables that refer to it.
    """

    first: int
    last: int
    bytes_per_step: int
    held: tuple[GrowingStorages, ...]
    kept_in: tuple[Holder, ...]

    def rows(self, full_after: int | None) -> list[Row]:
        """How fast, by what, and what keeps it. full_after: the step after which the card is full, if that is known."""
        rate = self.bytes_per_step
        what = f"{human(rate)} per step" if rate else "an autograd graph, in the host's memory,"
        end = "" if full_after is None else f"; at that rate the card is full after some {full_after} steps"
        kept = [one.of_steps for one in self.kept_in]
        if rate and not kept:
            kept = ["no variable: a cycle of autograd's, as backward(create_graph=True) makes, or a library"]
        return [
            ("grows", f"{what} from step {self.first} to {self.last}{end}"),
            *(("", str(one)) for one in self.held),
            *listed(kept, "kept by"),
        ]


@dataclass
class PartPeaks:
    """Peaks of the caching allocator in a part of the run."""

    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0

    @property
    def text(self) -> str:
        """What the part took."""
        return f"{human(self.peak_allocated_bytes)} allocated, {human(self.peak_reserved_bytes)} reserved at the peaks"


@dataclass
class PhasePeaks:
    """The same of evaluation or generation, which came `times` times.

    added_bytes: by how much its peak exceeded what was allocated when it began. An evaluation of several `batches`
    (calls of a model, at most) may keep something of each: `grows_bytes` per batch. with_gradients: how many of its
    calls kept what a backward pass needs. left_bytes: what is allocated more each time it begins; 0: not alike.
    """

    times: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    added_bytes: int = 0
    batches: int = 0
    grows_bytes: int = 0
    with_gradients: int = 0
    left_bytes: int = 0

    @property
    def text(self) -> str:
        """What the phase took."""
        peaks = PartPeaks(self.peak_allocated_bytes, self.peak_reserved_bytes).text
        return f"{peaks}; {count(self.times, 'time')}, {human(self.added_bytes)} more than when it began"


@dataclass(frozen=True)
class Workers:
    """The processes that the script started, with their peaks together: pages that they share are counted for each."""

    count: int
    peak_rss_bytes: int


@dataclass(frozen=True)
class Loader:
    """A DataLoader with workers: where it was iterated, its workers, batches that each prefetches, whether it pins."""

    place: str
    workers: int
    prefetch: int | None
    pins: bool


@dataclass(frozen=True)
class Pinned:
    """A line that pinned memory, and how much in all."""

    place: str
    bytes: int


@dataclass(frozen=True)
class HostMemory:
    """Memory of the host: the peak of the process, its workers', shared memory, through which these hand over batches,
    where data loaders with workers were iterated, the peak of pinned memory, and the lines that pinned most.
    """

    peak_rss_bytes: int
    workers: Workers
    shared_bytes: int
    loaders: list[Loader]
    pinned_bytes: int
    pinned_by: list[Pinned]

    def rows(self) -> list[Row]:
        """What it took."""
        found = [("host", f"{human(self.peak_rss_bytes)} of its own memory at the peak, without CUDA's libraries")]
        if self.workers.count:
            beside = (
                f"{count(self.workers.count, 'process', 'es')} beside it: {human(self.workers.peak_rss_bytes)} in all"
            )
            found.append(("", f"{beside}; {human(self.shared_bytes)} of shared memory"))
        for loader in self.loaders:
            kept = f"{loader.workers} workers, {loader.prefetch} batches each"
            found.append(("", f"by a DataLoader at {loader.place}: {kept}"))
        if self.pinned_bytes:
            lines = [f"; {one.place}: {human(one.bytes)} in all" for one in self.pinned_by if one.place]
            found.append(("pinned", f"{human(self.pinned_bytes)} at the peak" + "".join(lines)))
        return found
