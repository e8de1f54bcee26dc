"""A schedule as actions before, around and after each dispatched op of a step. Knows no torch.

The op log is the list of these ops, views included; each is an entry. What the plan does at an entry is its row. A
value is a version of a storage's bytes, as (number of the storage, version).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from coopsim.base import types
from coopsim.base.types import Role
from coopsim.live.actions import Action, Kind, Recompute, copies_of
from coopsim.live.host import StepTime
from coopsim.study.validate.values import TraceValues, Value
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

#: What a step finds where the step before has left it, and updates in place.
STAYS = frozenset({Role.PARAMETER, Role.OPTIMIZER_STATE, Role.BUFFER})
_ANY = 1 << 62  #: elements of an operand that may have as many as it will
HOLD = "coopsim.hold"  #: a pseudo-op of recorded traces: the program may read its operands from then on


@dataclass(slots=True)
class Entry:
    """A dispatched op of a recorded step. Storages are numbers of the trace; -1: one that the trace does not have.

    func: the op, aten.add_ where gradients are added up in place for autograd. shapes: of its operands, of its results:
    for each tensor the sizes and then the type; last, which parameters are among the operands, None if it is not known.
    op: its number in the trace; -1 for views, and for what else the trace leaves out. stream: 0 is the device's default
    stream, others in order of appearance; of what the trace has. ran: while the step is recorded, an op_runner.Ran.
    Until there is a trace, storages are objects of the ledger. In a plan file, ops and types go by name.
    """

    func: Any
    shapes: Any
    inputs: list[Any]
    results: list[Any]
    op: int = -1
    mutable: bool = False
    stream: int = 0
    ran: Any = field(default=None, repr=False)

    def refer(self, number: Mapping[Any, int], op: int) -> None:
        """Name storages and the op by their numbers in the trace, -1 for those that it does not have."""
        self.op, self.ran = op, None
        self.inputs, self.results = ([number.get(s, -1) for s in some] for some in (self.inputs, self.results))


@dataclass(slots=True)
class Row:
    """What a plan does at one entry of the op log.

    look, find: (position, storage) of the operands and of the results that the plan watches. makes: the values after
    the op. before: actions before it. copies: values to copy before it, as the op overwrites them and they are needed
    later. keep: values to hold after it, which the program lets go and the schedule needs. call: whether to keep the
    call, for a later recomputation. elements: the most that operands may have, where data enter the step that may be of
    another size in another step, and where an operand had none; else empty.
    """

    entry: Entry
    look: list[tuple[int, int]]
    find: list[tuple[int, int]]
    makes: list[Value]
    before: list[Action | Recompute]
    copies: list[Value]
    keep: list[Value]
    call: bool
    elements: list[int]
    func: Any = field(init=False)

    def __post_init__(self) -> None:
        self.func = self.entry.func


class Plan:
    """A schedule of a recorded step, by rows of its op log.

    storages: watch all, so that a step that leaves the plan knows what is there; else those that the plan evicts, and
    what makes them again reads. calls: keep the call of every op, so that another plan can be taken over; else those of
    ops that may be run again. evict: False if there is room for everything; then the plan only recognises the step.
    time: predicted of a step; None if nobody asked.
    """

    def __init__(
        self,
        trace: Trace,
        schedule: Schedule,
        op_log: Sequence[Entry],
        *,
        storages: bool = False,
        calls: bool = False,
        evict: bool = True,
        time: StepTime | None = None,
    ) -> None:
        self.time = time
        self.trace, self.program = trace, TraceValues(trace)
        self.mutates = [set(row) for row in trace.mutates.rows()]
        self.several_streams = bool(trace.stream.any())  #: or one, which is not the device's default
        self._before: dict[int, list[Action | Recompute]] = defaultdict(list)
        self._copies: dict[int, list[Value]] = defaultdict(list)
        self._keep: dict[int, list[Value]] = defaultdict(list)
        self._evicted: set[Value] = set()
        self._offloaded: set[Value] = set()
        self.host_bytes = 0  #: of the host's area, for what is offloaded
        self._again: set[int] = set()
        if evict:
            self._read(schedule, trace.creates.rows())
        for op in [i for i, name in enumerate(trace.name) if name == HOLD]:
            self._before[op + 1][:0] = self._before.pop(op, [])
            self._keep[op + 1] += self._keep.pop(op, [])
        self._maker = {value: op for op, values in enumerate(self.program.writes) for value in values}
        ops = range(trace.n_ops) if calls else [*self._again, *(self._maker.get(v, -1) for v in self._evicted)]
        self._calls = self._with_ancestors(ops) - self.program.collectives  # which are not run again
        self.watched = set(range(trace.n_storages)) if storages else self._watched()
        self.rows = self._rows(op_log)
        self.row_of = {row.entry.op: row for row in self.rows if row.call}
        self.table: Any = None  #: the rows as the observer reads them (observed.Table), once it follows the plan

    def has_place(self, s: int, nbytes: int) -> bool:
        """Whether storage `s` has a place on the host in a step in which it has so many bytes, by the data perhaps."""
        return nbytes <= int(self.program.bytes[s])

    def _read(self, schedule: Schedule, creates: list[list[int]]) -> None:
        rows = list(takewhile(lambda row: not row[1], schedule.rows()))
        copies = copies_of(rows, self.program.reads)
        self.host_bytes = copies.nbytes
        pending: list[Action | Recompute] = []
        targets: list[Value] = []
        run: Recompute | None = None
        at = -1
        dropped: dict[Value, list[int]] = defaultdict(list)  # by value: after which ops it goes
        older: dict[int, list[Value]] = {}
        for i, (action, _, op, storage, version, *_) in enumerate(rows):
            value = storage, version
            pending += [Action(Kind.ARRIVE, one) for one in copies.arrives.get(i, ())]
            match types.Action(action):
                case types.Action.ALLOC if storage >= 0 and op >= 0:
                    targets.append(value)
                case types.Action.COMPUTE:
                    self._before[op] = pending
                    older[op] = [(s, v - 1) for s, v in targets if s not in creates[op]]
                    pending, targets, run, at = [], [], None, op
                case types.Action.RECOMPUTE:
                    run = Recompute(op, tuple(targets))
                    self._again.add(op)
                    pending.append(run)
                    targets = []
                case types.Action.MOVE if op >= 0 and run:
                    run.takeovers.append(value)
                case types.Action.OFFLOAD if i in copies.offloads:
                    self._offloaded.add(value)
                    pending.append(Action(Kind.OFFLOAD, value, copies.offloads[i]))
                case types.Action.FETCH:
                    targets.remove(value)  # allocated for the copy, and not for what an op makes
                    pending.append(Action(Kind.FETCH, value))
                case types.Action.EVICT | types.Action.RELEASE | types.Action.FREE if storage >= 0:
                    kind = Kind.EVICT if action == types.Action.EVICT else Kind.DROP
                    kind = Kind.EVICT_OFFLOADED if i in copies.leaves else kind
                    if kind is Kind.EVICT:
                        self._evicted.add(value)
                    pending.append(Action(kind, value))
                    dropped[value].append(at + (run is not None))
        read_again = {value for op in self._again for value in self.program.reads[op]}
        for op, values in older.items():
            self._copies[op] = [value for value in values if value in read_again]
        for value, op in self.program.until.items():
            if not dropped[value] or any(d > op for d in dropped[value]):
                self._keep[op].append(value)
        ours = {value for values in (*self._keep.values(), *self._copies.values()) for value in values}
        for actions in self._before.values():
            ours.update(value for a in actions if isinstance(a, Recompute) for value in a.makes)
        for op, actions in self._before.items():  # the program lets go by itself of what it alone has
            self._before[op] = [
                a for a in actions if isinstance(a, Recompute) or a.kind != Kind.DROP or a.value in ours
            ]

    def _with_ancestors(self, ops: Iterable[int]) -> set[int]:
        """These ops, and all those that their operands are made by, directly or not."""
        found: set[int] = set()
        stack = list(ops)
        while stack:
            op = stack.pop()
            if op >= 0 and op not in found:
                found.add(op)
                stack += [self._maker[v] for v in self.program.reads[op] if v in self._maker]
        return found

    def _watched(self) -> set[int]:
        """The storages that the plan moves or holds, and those of the ops that may be run again."""
        found = {s for s, _ in self._evicted | self._offloaded}
        found |= {s for values in (*self._keep.values(), *self._copies.values()) for s, _ in values}
        for op in self._calls:
            found |= {s for s, _ in (*self.program.reads[op], *self.program.writes[op])} | self.mutates[op]
        return found

    def _rows(self, op_log: Sequence[Entry]) -> list[Row]:
        writes, watch = self.program.writes, self.watched
        rows, outside = [], self._outside()
        for entry in op_log:
            op = entry.op
            rows.append(
                Row(
                    entry,
                    look=[(i, s) for i, s in enumerate(entry.inputs) if s in watch],
                    find=[(i, s) for i, s in enumerate(entry.results) if s in watch],
                    makes=[v for v in writes[op] if v[0] in watch] if op >= 0 else [],
                    before=self._before.get(op, []),
                    copies=self._copies.get(op, []),
                    keep=self._keep.get(op, []),
                    call=op in self._calls,
                    elements=_elements(entry, outside),
                )
            )
        return rows

    def _outside(self) -> set[int]:
        """Storages whose data enter the step from outside: inputs, and what an op makes without operands."""
        trace = self.trace
        found = {s for s, role in enumerate(trace.role) if role == Role.INPUT and trace.alive_at_start[s]}
        makes = zip(trace.reads.rows(), trace.creates.rows(), strict=True)
        return found.union(s for reads, creates in makes if not reads for s in creates)


def _elements(entry: Entry, outside: set[int]) -> list[int]:
    found = [math.prod(sizes[:-1]) for sizes in entry.shapes[0]]
    if outside.intersection(entry.inputs):
        return found
    # What had no bytes is not in the trace: the plan would take it for empty in every step.
    return [n if s < 0 else _ANY for n, s in zip(found, entry.inputs, strict=True)] if -1 in entry.inputs else []
