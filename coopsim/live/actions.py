"""What a plan does before an op, and what is left to do of actions that a step has skipped. Knows no torch.

Values are versions of the trace's storages.
"""

from dataclasses import dataclass, field

from coopsim.study.validate.values import Value


@dataclass(frozen=True, slots=True)
class Evict:
    """Free the memory of a value that the program still refers to."""

    value: Value


@dataclass(frozen=True, slots=True)
class Drop:
    """Let go of a value that only we hold."""

    value: Value


@dataclass(slots=True)
class Recompute:
    """Run an op again for `targets`. `takeovers` are versions that take over the memory of the version before."""

    op: int
    targets: tuple[Value, ...]
    takeovers: list[Value] = field(default_factory=list)

    @property
    def makes(self) -> tuple[Value, ...]:
        """All values that are kept of its results: `targets`, then `takeovers`."""
        return (*self.targets, *self.takeovers)


@dataclass(frozen=True, slots=True)
class Offload:
    """Begin to copy a value to the host, to the area's bytes from `at` on."""

    value: Value
    at: int


@dataclass(frozen=True, slots=True)
class EvictOffloaded:
    """Wait until a value is on the host, and free its memory."""

    value: Value


@dataclass(frozen=True, slots=True)
class Fetch:
    """Allocate memory for a value that is on the host only, and begin to copy it there."""

    value: Value


@dataclass(frozen=True, slots=True)
class Arrive:
    """Wait until a value has been fetched, and hand its memory to the program's storage."""

    value: Value


Copying = Offload | EvictOffloaded | Fetch | Arrive
Action = Evict | Drop | Recompute | Copying


@dataclass
class Skipped:
    """What is left to do of a plan's actions that a step has skipped, as it began without the plan.

    late: values to evict. wanted: values to hold. copies: of values that should be on the host, or on the way.

    evicted: of these, the ones whose memory should have been freed.
    """

    late: dict[Value, None] = field(default_factory=dict)
    wanted: set[Value] = field(default_factory=set)
    copies: dict[Value, Offload] = field(default_factory=dict)
    evicted: dict[Value, None] = field(default_factory=dict)

    def note(self, action: Action) -> None:
        """Take note of a skipped action."""
        match action:
            case Recompute(targets=targets, takeovers=takeovers):
                self.wanted.update(targets, takeovers)
                for value in (*targets, *takeovers):
                    self.late.pop(value, None)
            case Offload(value=value):
                self.copies[value] = action
            case EvictOffloaded(value=value):
                self.evicted[value] = None
            case Fetch(value=value):
                self.evicted.pop(value, None)
            case Arrive():
                pass
            case Evict(value=value):
                self.wanted.discard(value)
                self.late[value] = None
            case Drop(value=value):
                self.wanted.discard(value)
                self.late.pop(value, None)
