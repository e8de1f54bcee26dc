"""What a recorder records: the ops of some steps, what they read and make, and when storages are freed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from coopsim.base.types import Phase
from coopsim.record.observe.storages import Storage


@dataclass
class Op:
    """One op that was dispatched: the storages that it read, mutated and created, and its cost."""

    number: int
    name: str
    phase: Phase
    module: str
    stream: int
    reads: list[Storage]
    mutates: list[Storage]
    random: bool = False
    creates: list[Storage] = field(default_factory=list)
    flops: int = 0
    bytes_moved: int = 0
    cost_ns: int = 0
    timed: int = -1  #: its index among the calls of the timer's pass; -1: not timed
    peers: int = 0  #: of a collective: how many ranks take part; 0: not a collective


@dataclass
class Free:
    """The last reference to a storage was dropped."""

    storage: Storage


@dataclass
class NextStep:
    """The boundary between two consecutive steps."""


@dataclass
class Recording:
    """What happened in the recorded steps: `events`, in order; `dispatched` counts all ops, also those left out."""

    start: list[Storage] = field(default_factory=list)  #: alive at the start, in order of appearance
    events: list[Op | Free | NextStep] = field(default_factory=list)
    dispatched: int = 0
    segments: list[dict[str, Any]] = field(default_factory=list)  #: the allocator's segments at the start
    known: set[Storage] = field(default_factory=set)  #: those of `start`, and those that an op in `events` creates

    def begin_with(self, storages: Iterable[Storage]) -> None:
        """Note storages that were alive at the start; those that are known already are left out."""
        new = [storage for storage in storages if storage not in self.known]
        self.start += new
        self.known.update(new)
