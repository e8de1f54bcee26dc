"""What a plan does before an op. Values are versions of the trace's storages. Knows no torch."""

from dataclasses import dataclass, field

from coopsim.validate.program import Value


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
class Leave:
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


Copying = Offload | Leave | Fetch | Arrive
Action = Evict | Drop | Recompute | Copying
