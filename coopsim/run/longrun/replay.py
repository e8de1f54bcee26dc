"""What the report of a run says of its replay, thousands of steps long: its figures, and their rows of text."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coopsim.base.text import count, human
from coopsim.run.figure import Row, listed
from coopsim.run.longrun.causes import Cause, PeakParts
from coopsim.run.longrun.lengths import Length
from coopsim.run.longrun.recorded import Ints
from coopsim.run.longrun.remedies import TriedRemedy

_PARTS = {
    "base_bytes": "for a usual step",
    "longer_input_bytes": "more for the longest",
    "kept_bytes": "kept by earlier steps",
    "fragmentation_bytes": "by fragmentation",
}


@dataclass(frozen=True)
class OutAt:
    """The step that ran out of memory, numbered from 1, its length, the request that failed, and why."""

    step: int
    length: Length
    requested_bytes: int
    cause: Cause


@dataclass(frozen=True)
class BytesOfSteps:
    """Mean, percentiles and maximum of bytes by step, and the first step that has it, numbered from 1."""

    mean: int
    median: int
    p90: int
    p99: int
    max: int
    max_at: int

    @classmethod
    def of(cls, bytes_: Ints) -> "BytesOfSteps":
        """Return those of a column of bytes by step."""
        median, p90, p99 = (int(np.percentile(bytes_, q, method="higher")) for q in (50, 90, 99))
        return cls(int(bytes_.mean()), median, p90, p99, int(bytes_.max()), int(np.argmax(bytes_)) + 1)

    def __str__(self) -> str:
        mean, p99, most = map(human, (self.mean, self.p99, self.max))
        return f"peaks of steps: mean {mean}, 99th percentile {p99}, most {most} at step {self.max_at}"


@dataclass(frozen=True)
class Replay:
    """The replay of a long run, as docs/reference/json.md has its keys."""

    steps: int
    as_recorded: int
    lengths_from: str
    shortest: list[int]
    longest: list[int]
    stood_in: int
    estimated: int
    left_out: int
    unlike: int
    irregular: list[str]
    empties_every: int | None
    evaluates_every: int | None
    alloc_conf: str
    card_bytes: int
    allocated: BytesOfSteps
    reserved: BytesOfSteps
    reserved_after_steps: BytesOfSteps
    retries: int
    runs_out: OutAt | None
    cause: Cause
    parts: PeakParts
    tried: list[TriedRemedy]
    not_tried: list[str]

    def rows(self) -> Iterator[Row]:
        """What was played, what it takes, whether and why memory runs out, what helps, and what is not certain."""
        drawn = self.lengths_from == "drawn"
        first, last = (" x ".join(map(str, length)) for length in (self.shortest, self.longest))
        of = f" of lengths {first} to {last}" * bool(first)
        source = " drawn from those recorded" * bool(first) if drawn else f" from {self.lengths_from}"
        yield "replay", f"{self.steps} steps{of}{source}; the first {self.as_recorded} as they were recorded"
        recurs = {"an emptied cache": self.empties_every, "evaluation": self.evaluates_every}
        if any(recurs.values()):
            yield "", f"steps, with {', '.join(f'{what} every {n}' for what, n in recurs.items() if n)} steps"
        yield "allocated", str(self.allocated)
        yield "reserved", str(self.reserved)
        if (out := self.runs_out) is not None:
            length = f" (length {' x '.join(map(str, out.length))})" if out.length else ""
            yield "runs out", f"at step {out.step}{length}, by {out.cause}: asked for {human(out.requested_bytes)}"
        if self.retries:
            yield "", f"the allocator gave back its cache {count(self.retries, 'time')} to go on, which takes time"
        parts = self.parts
        shares = [f"{human(nbytes)} {what}" for name, what in _PARTS.items() if (nbytes := getattr(parts, name))]
        yield "unlimited", f"{human(parts.reserved_bytes)} reserved at step {parts.step}: {shares[0]}"
        yield from (("", f"+ {share}") for share in shares[1:])
        yield from listed(map(str, self.tried), "tried")
        yield from listed(self.not_tried, "not tried")
        yield from self._cautions()

    def _cautions(self) -> Iterator[Row]:
        if self.stood_in:
            yield "caution", f"{self.stood_in} steps are played as of the next longer length that was recorded:"
            yield "", "what theirs takes does not follow from those recorded (record more: --steps)"
        if self.estimated:
            yield "caution", f"{self.estimated} steps are longer than all recorded, and partly estimated (2 % at most)"
        for what in self.irregular:
            yield "caution", f"{what} follows no period in the steps that ran, and is left out"
        if self.left_out:
            yield "caution", f"{self.left_out} recorded parts of steps make requests like no others, and are left out"
        if self.unlike:
            yield (
                "caution",
                f"{self.unlike} recorded parts of steps take other sizes than others of their length, and are taken to "
                "be like them",
            )
