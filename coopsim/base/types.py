"""The vocabulary: every noun that the parts of coopsim share, with its unit.

Bytes and nanoseconds are integers. Intervals are half open. This module imports nothing of ours.

    StorageId   index of a storage in its trace
    OpId        index of an op in its trace, in program order
"""

from enum import IntEnum, StrEnum
from typing import Literal, NewType

StorageId = NewType("StorageId", int)
OpId = NewType("OpId", int)

Precision = Literal["tf32", "fp32"]  #: of float32 products on the card

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30  #: bytes
GRANULE = 512  #: bytes, of which PyTorch's allocator, and an arena, give out multiples

#: Releases of PyTorch whose caching allocator is simulated, from and to.
OLDEST_TORCH, NEWEST_TORCH = "2.6.0", "2.15.0"
SIMULATED_TORCH = " to ".join(name.rpartition(".")[0] for name in (OLDEST_TORCH, NEWEST_TORCH))  #: for people


class Role(StrEnum):
    """What a storage is to the training step."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer_state"
    INPUT = "input"
    ACTIVATION = "activation"
    TEMPORARY = "temporary"


class Phase(StrEnum):
    """The part of a training step that an op belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class Action(IntEnum):
    """What a row of a schedule does. The values index the `action` dictionary of a schedule file."""

    COMPUTE = 0  #: an op of the program runs for the first time in its step
    RECOMPUTE = 1  #: an op runs again, because a result of it is missing
    ALLOC = 2  #: bytes at an address become a value's
    EVICT = 3  #: the policy drops a value to make room
    RELEASE = 4  #: a value that nobody holds is dropped; it can be recomputed
    FREE = 5  #: a value is dropped for good
    MOVE = 6  #: a value takes over the address of the one before it (in place, or from step to step)
    REFUSE = 7  #: the caching allocator, asked for a value's bytes, is out of memory: something will be evicted
    OFFLOAD = 8  #: a value's copy to the host begins; an eviction of the value waits for its end
    FETCH = (
        9  #: a value's copy from the host begins, to bytes just allocated; an op that reads the value waits for its end
    )
    DISCARD = 10  #: the host's copy of a value goes


class Outcome(StrEnum):
    """How a replay ended."""

    OK = "ok"
    OOM = "oom"  #: no hole large enough, and nothing left to evict
    THRASH = "thrash"  #: total cost over the overhead limit
    LOST = "lost"  #: a value was needed whose recomputation needs data that an in-place update has destroyed


class Cost(StrEnum):
    """What losing a storage costs (the numerator of a score)."""

    NONE = "none"  #: 1, whatever is lost
    OWN = "own"  #: the cost of the op that makes it
    SET = "set"  #: own + evicted inputs and siblings, each with its union-find set (OneFlow)
    CLASSES = "classes"  #: own + the equivalence classes of evicted parents and children (DTR's ẽ*)
    NEIGHBOURHOOD = "neighbourhood"  #: own + all evicted ancestors and descendants (DTR's e*)
    ANCESTORS = "ancestors"  #: own + all evicted ancestors (MSPS)
    PROJECTED = "projected"  #: recomputation back x evicted descendants x memory to recompute (MegEngine's static DTR)
    RANDOM = "random"  #: a seeded pseudo-random number


class Divisor(StrEnum):
    """What a score is divided by besides staleness."""

    NOTHING = "nothing"
    BYTES = "bytes"  #: DTR
    HOLE = "hole"  #: bytes + adjacent free bytes: the hole that eviction would leave (DTE)


class Recency(StrEnum):
    """How far from now the use of a storage is that a score is divided by."""

    STALENESS = "staleness"  #: decision cost run since its last use
    NEXT_USE = "next_use"  #: ops of the program until its next use (needs the future)
    NOTHING = "nothing"  #: 1
    DAMPED = "damped"  #: staleness up to a fifth of what has run since the step began, and a tenth of both


class Search(StrEnum):
    """How victims are found."""

    GREEDY = "greedy"  #: the least score, one storage at a time, until a contiguous hole fits (DTR, DTE)
    WINDOW = "window"  #: the cheapest contiguous run, found in one sliding pass over the address order (Coop)
    WINDOW_PUBLISHED = "window_published"  #: the same as OneFlow's code has it, quirks included

    WINDOW_THRIFTY = "window_thrifty"  #: the run of least score for each byte that it frees


class Placement(StrEnum):
    """Which end of the best-fitting hole a storage takes."""

    LOW = "low"
    TWO_ENDED = "two_ended"  #: outputs of expensive ops low, all else high (Coop's cheap tensor partitioning)
    TWO_ENDED_OPS = "two_ended_ops"  #: the same, with the workspace of an expensive op low, too (OneFlow)
    PREFERRED = "preferred"  #: beside what costs alike per byte to lose, as searches have seen; the cheapest highest


class InPlace(StrEnum):
    """What an op does that mutates a storage."""

    COPY = "copy"  #: copy on write: the new version gets bytes of its own, the old is dropped (DTR's paper)
    COPY_OUTPUTS = "copy_outputs"  #: the same, but parameters, buffers and optimizer state stay (OneFlow's baselines)
    RECOMPUTABLE = "recomputable"  #: the new version takes over the address; the old one counts as evicted
    FIRST_RUN = "first_run"  #: the same when an op runs first; run again, its result gets new bytes (OneFlow)


class Node(StrEnum):
    """Whose a node of the union-find forest is (cost `set`)."""

    VALUE = "value"  #: each version of a storage has its own
    STORAGE = "storage"  #: an update in place hands it on, and the old version gets a new one of cost 0 (OneFlow)


class SmallArea(StrEnum):
    """Where requests of up to 10 KiB go."""

    OFF = "off"  #: where all others go
    TOP = "top"  #: to the highest 10 MiB of the arena, which no search looks at (OneFlow's default; off in 2023's runs)


class Release(StrEnum):
    """What happens to an evictable value when the program drops its last reference."""

    EAGER = "eager"  #: dropped at once, recomputable as long as something may need it
    KEEP = "keep"  #: left for the search to find
    BANISH = "banish"  #: dropped for good unless something evicted depends on it; its dependents stay (DTR's appendix)
    NEEDED = "needed"  #: left for the search to find as long as something evicted would be made from it, then dropped
    COUNTED = "counted"  #: dropped at once; all goes for good when no op that could run again reads it (OneFlow)


class Dead(StrEnum):
    """What happens to a recomputed value that the program no longer holds, once unpinned."""

    RELEASE = "release"  #: dropped at once
    UNSAVED = "unsaved"  #: inputs that were missing go again, unless saved for backward; the rest stays (OneFlow)
    KEEP = "keep"  #: left for the search to find (DTR on PyTorch, MegEngine)
    NEEDED = "needed"  #: left for the search to find as long as something evicted would be made from it, then dropped


class Pinning(StrEnum):
    """Which values are never evicted."""

    SOUND = "sound"  #: the declared ones, and those that an in-place update would make unrecomputable
    DECLARED = "declared"  #: only those without a producer, and parameters, buffers, gradients, optimizer state


class Lose(StrEnum):
    """How values that a search chooses are lost."""

    RECOMPUTE = "recompute"  #: dropped; an op runs again to make them
    OFFLOAD = "offload"  #: copied to the host
    EITHER = "either"  #: the way that costs less


class OffloadState(StrEnum):
    """Whether parameters, gradients, optimizer state, buffers and inputs may be offloaded."""

    NO = "no"
    YES = "yes"


class Planning(StrEnum):
    """What a policy makes of the steps that it has seen."""

    NONE = "none"
    REPEAT = "repeat"  #: a step like the one before goes by a plan made for that one
    OFFLINE = "offline"  #: all steps of the trace are known before they run, and go by one plan, the first, too


class CostModel(StrEnum):
    """The cost that a policy decides with; what is reported is always the trace's."""

    COST = "cost"  #: the trace's own, nanoseconds
    BYTES = "bytes"  #: bytes that the op moves
    FLOPS = "flops"  #: its floating-point operations
    UNIT = "unit"  #: 1 for every op


class RandomOps(StrEnum):
    """What is done with evicted results of ops that draw random numbers."""

    RECOMPUTE = "recompute"  #: the op runs again with the generator's state saved
    KEEP = "keep"  #: they are never evicted


class CoopsimError(Exception):
    """Bad input: one line that says what is wrong and how to mend it. The command line exits with 2."""
