"""Put a trace together event by event, in program order: what capture, importers and synthetic traces write to."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from coopsim.base.types import OpId, Phase, Role, StorageId
from coopsim.trace.checks import check
from coopsim.trace.ragged import Ragged
from coopsim.trace.table import LISTS, NUMBERS, Trace

#: The op that calls torch.cuda.empty_cache, in imported histories: it has no operands.
EMPTY_CACHE = "empty_cache"


class TraceBuilder:
    """Puts a trace together by hand: storages, ops and frees in the order of the program, then `build`.

    >>> b = TraceBuilder()
    >>> x = b.storage(1024, Role.INPUT, alive_at_start=True)
    >>> y = b.storage(1024)
    >>> _ = b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=3000)
    >>> b.free(y)
    >>> b.build({"model": "tiny"}).n_ops
    1
    """

    def __init__(self) -> None:
        self._bytes: list[int] = []
        self._role: list[str] = []
        self._alive: list[bool] = []
        self._becomes: dict[int, int] = {}
        self._columns: dict[str, list[Any]] = {
            key: [] for key in ("name", "phase", "module", "random", *NUMBERS)
        }  # a value of each op
        self._lists: dict[str, tuple[list[int], list[int]]] = {key: ([], []) for key in LISTS}  # lengths, all values
        self._freed: list[int] = []
        self._freed_after: list[int] = []
        self._step = 0

    def storage(self, nbytes: int, role: str = Role.ACTIVATION, *, alive_at_start: bool = False) -> StorageId:
        """Add a storage of `nbytes` and return its number. role: a coopsim.Role.

        One that is alive at the start is there at the end, too, unless it is freed.
        """
        self._bytes.append(nbytes)
        self._role.append(str(role))
        self._alive.append(alive_at_start)
        return StorageId(len(self._bytes) - 1)

    def op(
        self,
        name: str,
        *,
        reads: Iterable[int] = (),
        mutates: Iterable[int] = (),
        creates: Iterable[int] = (),
        temporaries: Iterable[int] = (),
        requests: Iterable[int] = (),
        cost_ns: int = 0,
        flops: int = 0,
        bytes_moved: int = 0,
        phase: str = Phase.FORWARD,
        module: str = "",
        stream: int = 0,
        random: bool = False,
        peers: int = 0,
    ) -> OpId:
        """Add the next op of the program and return its number. Storages go by the numbers that `storage` gave.

        temporaries: bytes that it allocates and frees inside. requests: the order in which it asks for them and for
        what it creates (docs/reference/files.md). phase: a coopsim.Phase. peers: of a collective, the ranks that it is
        among.
        """
        row = {**locals(), "step": self._step}
        lists = {key: list(row[key]) for key in LISTS}
        for key, column in self._columns.items():
            column.append(row[key])
        for key, (lengths, values) in self._lists.items():
            lengths.append(len(lists[key]))
            values += lists[key]
        return OpId(self._n_ops - 1)

    @property
    def _n_ops(self) -> int:
        return len(self._columns["name"])

    def free(self, storage: int) -> None:
        """Let the program drop its last reference to `storage` after the ops so far."""
        self._freed.append(storage)
        self._freed_after.append(self._n_ops - 1)

    def next_step(self) -> None:
        """Begin the next of several consecutive steps."""
        self._step += 1

    def becomes(self, storage: int, successor: int) -> None:
        """Let `storage` stand at the end where `successor` stood at the start."""
        self._becomes[storage] = successor

    def build(self, header: Mapping[str, Any]) -> Trace:
        """Return the trace. A storage alive at the start and never freed becomes itself, if `becomes` did not say else.

        header: `model`, its label, and what else a file is to say of it. CoopsimError for the first row that cannot be:
        an unknown storage, use after free, a double free.
        """
        gone = set(self._freed)
        becomes = [self._becomes.get(i, i if alive and i not in gone else -1) for i, alive in enumerate(self._alive)]

        ops: dict[str, Any] = {key: np.array(self._columns[key], np.int64) for key in NUMBERS}
        ops |= {key: Ragged.of_lengths(*rows) for key, rows in self._lists.items()}
        trace = Trace(
            bytes=np.array(self._bytes, np.int64),
            role=self._role,
            alive_at_start=np.array(self._alive, np.bool_),
            becomes=np.array(becomes, np.int64),
            name=list(self._columns["name"]),
            phase=[str(phase) for phase in self._columns["phase"]],
            module=list(self._columns["module"]),
            random=np.array(self._columns["random"], np.bool_),
            **ops,
            freed=np.array(self._freed, np.int64),
            freed_after=np.array(self._freed_after, np.int64),
            header=dict(header),
        )
        check(trace)
        return trace
