"""What happened in a run: the records of its report, in types that JSON can represent, each with its text."""

from dataclasses import dataclass

from coopsim.base.text import count, human
from coopsim.run.figure import Row, listed

#: What masks keep, in words.
KEPT = {"all": "all of their elements", "half": "half of their elements", "none": "nothing"}
_READS = ("aten._to_copy", "aten.copy_", "aten._local_scalar_dense")


def at(place: str) -> str:
    """Where something was, to go on with: " at file:line"; "" if that is not known."""
    return f" at {place}" if place else ""


@dataclass(frozen=True)
class ScriptError:
    """The error that ended a process. `place`: the user's line (file:line, "" if unknown); `error`: what is said of it.

    `functions` are those of the user's that were under way: name of the file, first line, line that was running.
    """

    place: str
    error: str
    functions: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class ValueRead:
    """An op that read a value of the device, and the user's line with it."""

    op: str
    place: str


@dataclass(frozen=True)
class SizeFromData:
    """An op that takes a size from data of the device, or gives data of a mask to the host, and how often it did.

    by: what stands for the data: "masks", or "even" shares.
    """

    op: str
    place: str
    calls: int
    by: str

    def caution(self, masks: str) -> str:
        """The line to print. `masks`: what masks were taken to keep ("all", "half" or "none")."""
        does = "gives the host" if self.op.startswith(_READS) else "takes its sizes from"
        says = {
            "masks": f"which are unknown here: masks keep {KEPT[masks]}",
            "even": "which are assumed to be even: each expert or class gets its share",
        }
        return f"caution: {self.op} at {self.place} ({self.calls} calls) {does} data on the device, {says[self.by]}"


@dataclass(frozen=True)
class EndedLoop:
    """A loop that waits for a value of the device: it was ended after so many iterations, so many times."""

    place: str
    iterations: int
    times: int

    @property
    def caution(self) -> str:
        """The line to print."""
        return (
            f"caution: the loop at {self.place} waits for a value that only a card computes; it was ended after "
            f"{self.iterations} iterations" + (f", {self.times} times" if self.times > 1 else "")
        )


@dataclass(frozen=True)
class GraphBreak:
    """Where a graph of torch.compile's ends, why, and how often it was there.

    uncompiled: the whole function that begins there runs as it is.
    """

    place: str
    reason: str
    calls: int
    uncompiled: bool

    @property
    def line(self) -> str:
        """The line to print."""
        return f"{'uncompiled' if self.uncompiled else 'graph break'} at {self.place}: {self.reason}"


@dataclass(frozen=True)
class InputSizes:
    """Shapes of models' inputs: how many there were, and the largest."""

    seen: int
    largest: list[int]

    @property
    def caution(self) -> str:
        """The line to print, with the way to ask about larger ones."""
        return (
            f"caution: inputs of {self.seen} sizes, up to {' x '.join(map(str, self.largest))}; of larger ones nothing "
            "is known: run the largest there are, or name the lengths of a long run (--lengths F)"
        )


@dataclass(frozen=True)
class Held:
    """A group of storages of one role that one op of one module made: their number, and their bytes in total."""

    role: str
    op: str
    module: str
    storages: int
    bytes: int

    def __str__(self) -> str:
        by = f"by {self.op}" + (f" in {self.module}" if self.module else "") if self.op else ""
        what = "unused tensor" if self.role == "unused" else self.role
        return f"{human(self.bytes):>10}  {count(self.storages, what)} {by}".rstrip()


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
        return f"out of memory{at(self.place)}, {self.when}"

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

    def left(self, memory_bytes: int) -> str:
        """Say how much was left: of the card, which has `memory_bytes`, or of the script's limit for PyTorch."""
        free = f"the card had {human(self.device_free_bytes)} left"
        if self.memory_fraction is None:
            return free
        left = max(int(self.memory_fraction * memory_bytes) - self.reserved_bytes, 0)
        if left >= self.device_free_bytes:
            return free
        return f"the limit of {self.memory_fraction:.4g} of the card left {human(left)}; {free}"

    def rows(self, memory_bytes: int) -> list[Row]:
        """The request that failed, and what held memory then."""
        cached = self.reserved_bytes - self.allocated_bytes
        return [
            ("failed", f"{self.op}{f' in {self.module}' if self.module else ''}"),
            ("asked for", f"{human(self.requested_bytes)}; {self.left(memory_bytes)}"),
            ("allocated", human(self.allocated_bytes)),
            ("cached", f"{human(cached)}, the largest block {human(self.largest_free_block_bytes)}"),
            ("held by", self.held),
            *listed(map(str, self.largest), "largest"),
        ]
