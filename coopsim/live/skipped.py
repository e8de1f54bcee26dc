"""What is left to do of a plan's actions that a step has skipped, as it began without the plan."""

from dataclasses import dataclass, field

from coopsim.live.actions import Action, Arrive, Drop, Evict, Fetch, Leave, Offload, Recompute
from coopsim.validate.program import Value


@dataclass
class Skipped:
    """late: values to evict. wanted: values to hold. copies: of values that should be on the host, or on the way.

    left: of these, the ones whose memory should have been freed.
    """

    late: dict[Value, None] = field(default_factory=dict)
    wanted: set[Value] = field(default_factory=set)
    copies: dict[Value, Offload] = field(default_factory=dict)
    left: dict[Value, None] = field(default_factory=dict)

    def note(self, action: Action) -> None:
        """Take note of a skipped action."""
        match action:
            case Recompute(targets=targets, takeovers=takeovers):
                self.wanted.update(targets, takeovers)
                for value in (*targets, *takeovers):
                    self.late.pop(value, None)
            case Offload(value=value):
                self.copies[value] = action
            case Leave(value=value):
                self.left[value] = None
            case Fetch(value=value):
                self.left.pop(value, None)
            case Arrive():
                pass
            case Evict(value=value):
                self.wanted.discard(value)
                self.late[value] = None
            case Drop(value=value):
                self.wanted.discard(value)
                self.late.pop(value, None)
