"""What a policy of a user's sees of a replay: blocks, values, the clock."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.replay.block_table import fill_scores, fill_table
from coopsim.simulate.replay.score import cost_of_loss, score, terms_of
from coopsim.simulate.replay.search import below_border, can_go

if TYPE_CHECKING:
    from coopsim.simulate.planning.program import Program
    from coopsim.trace.table import Trace


def _read_only(trace: "Trace") -> "Trace":
    """The trace with a header of its own, and arrays that cannot be written: what a policy writes changes no other."""
    arrays = {name: value.view() for name, value in vars(trace).items() if isinstance(value, np.ndarray)}
    for array in arrays.values():
        array.flags.writeable = False
    return replace(trace, header=dict(trace.header), **arrays)  # type: ignore[arg-type]


class Block(NamedTuple):
    """A run of memory: `value` is -1 for a hole, `can_go` says whether it may be evicted. A counter has no holes."""

    address: int
    bytes: int
    value: int
    can_go: bool


class BlockTable:
    """All blocks in address order, as arrays: `address`, `bytes`, `value` (-1: a hole), `can_go`, `last_use`, `score`.

    Views of what the next search writes over: copy what is to be kept. last_use: on the memory's clock; of a hole 0.
    """

    def __init__(self, memory: "Memory", blocks: int) -> None:
        self._state = memory._state
        self.address, self.bytes, self.value, self.last_use = self._state.table[:, :blocks]
        self.can_go: NDArray[np.bool_] = self._state.can_go[:blocks]

    def __len__(self) -> int:
        return len(self.value)

    @property
    def score(self) -> NDArray[np.float64]:
        """The policy's score of each value, 0 of a hole, infinite where `can_go` is false; counts as computed."""
        fill_scores(self._state)
        return self._state.score[: len(self)]


class Memory:
    """The memory of a replay, and the program that runs in it.

    A value is one version of one storage in one iteration of the trace; its number is the same in each iteration. It
    is resident, a block of memory, or not. Numbers out of range raise IndexError, what only resident values have
    ValueError.
    """

    def __init__(self, state: s.State, program: "Program", trace: "Trace") -> None:
        self._state, self._program = state, program
        self.trace = _read_only(trace)

    @property
    def budget(self) -> int:
        """Bytes in all."""
        return int(self._state.K[s.K_BUDGET])

    @property
    def free(self) -> int:
        """Bytes that no value has."""
        return int(self._state.K[s.K_FREE])

    @property
    def clock(self) -> int:
        """Decision cost of all ops that have run so far, recomputations included (ns under the cost model `cost`)."""
        return int(self._state.K[s.K_CLOCK])

    @property
    def step(self) -> int:
        """The training step, from 0."""
        return int(self._state.K[s.K_STEP])

    @property
    def op(self) -> int:
        """The op of the program that is being served, also while others run again for it; -1 at the start."""
        return int(self._state.K[s.K_NOW]) if self._state.K[s.K_OP] >= 0 else -1

    @property
    def values(self) -> int:
        """How many values there are: they are numbered from 0."""
        return len(self._state.V)

    def is_resident(self, value: int) -> bool:
        """Whether the value is in memory."""
        return bool(self._of(value, s.BLOCK) >= 0)

    def can_go(self, value: int) -> bool:
        """Whether the value is resident and may be evicted now."""
        return self.is_resident(value) and bool(_may_go(self._state, int(value)))

    def bytes(self, value: int) -> int:
        """Its bytes, rounded up as the allocator does."""
        return self._of(value, s.BYTES)

    def cost(self, value: int) -> int:
        """Decision cost of the op that makes it, once."""
        return self._of(value, s.OWN)

    def loss(self, value: int) -> float:
        """What losing a resident value would cost now, by the policy's `cost`: what is evicted around it may count."""
        self._block(value)
        return float(_loss(self._state, int(value)))

    def score(self, value: int) -> float:
        """The policy's score of a resident value, by its cost, recency and divisor; counts as computed."""
        self._block(value)
        self._state.K[s.K_SCORES] += 1
        return float(_score(self._state, int(value)))

    def address(self, value: int) -> int:
        """Where a resident value lies, in bytes."""
        return int(self._state.P[self._block(value), s.ADDRESS])

    def last_use(self, value: int) -> int:
        """When an op last read or made a resident value, on the clock."""
        return int(self._state.P[self._block(value), s.LAST_USE])

    def recency(self, value: int) -> int:
        """The clock since then."""
        return self.clock - self.last_use(value)

    def next_use(self, value: int) -> int | None:
        """The next op of the program that reads it, the one being served included; None: none in this iteration.

        Known only where the program is: a policy that uses it is offline.
        """
        uses = self._state.uses[self._of(value, s.USES) : self._of(value, s.USES_END)]
        at = int(np.searchsorted(uses, max(self.op, 0)))
        return int(uses[at]) if at < len(uses) else None

    def storage(self, value: int) -> int:
        """The trace's number of its storage; -1: a temporary of one op."""
        self._of(value, s.BYTES)
        return int(self._program.storage[value])

    def version(self, value: int) -> int:
        """Which version of its storage it is, from 0; of a temporary which of its op's."""
        self._of(value, s.BYTES)
        return int(self._program.version[value])

    def producer(self, value: int) -> int:
        """The op that makes it; -1: none, it is there at the start."""
        return self._of(value, s.PRODUCER)

    def table(self) -> BlockTable:
        """All blocks in address order, as arrays, by one compiled call. Each counts as visited by the search."""
        return BlockTable(self, int(fill_table(self._state, True)))

    def blocks(self) -> list[Block]:
        """All blocks, in address order. Each counts as visited by the search."""
        table = self.table()
        columns = (table.address, table.bytes, table.value, table.can_go)
        return list(map(Block._make, zip(*(column.tolist() for column in columns), strict=True)))

    def _of(self, value: int, column: int) -> int:
        if not 0 <= value < len(self._state.V):
            raise IndexError(f"there is no value {value}: they are numbered from 0 to {len(self._state.V) - 1}")
        return int(self._state.V[value, column])

    def _block(self, value: int) -> int:
        if not 0 <= value < len(self._state.V) or self._state.V[value, s.BLOCK] < 0:
            raise ValueError(f"value {value} is not in memory")
        return int(self._state.V[value, s.BLOCK])


@kernel
def _may_go(S: s.State, v: int) -> bool:
    return can_go(S, v) and below_border(S, v)


@kernel
def _score(S: s.State, v: int) -> float:
    return score(S, terms_of(S), S.V[v, s.BLOCK], v)


@kernel
def _loss(S: s.State, v: int) -> float:
    return cost_of_loss(S, terms_of(S), S.V[v, s.BLOCK], v)
