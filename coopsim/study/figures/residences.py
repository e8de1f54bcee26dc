"""Where each value was, and when: the rectangles of a memory map, from the actions of a schedule, and its cells."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import Action, CoopsimError, Phase, Role

if TYPE_CHECKING:
    from coopsim.trace import Trace
    from coopsim.trace.schedule import Schedule


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Cells = NDArray[np.intp]

ROLES = tuple(str(r) for r in Role)
RECOMPUTED = len(ROLES)  #: what has been made again, whatever its role
FREE = -1
PERMANENT = tuple(ROLES.index(r) for r in (Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE))  #: what stays throughout
_LONG = 0.05  # of the step: what stays as long divides the memory, so it must be seen however thin it is
_SEEN = 0.6  # of a cell: more than half


@dataclass(frozen=True, eq=False)
class Residences:
    """The residencies of values in memory during one step, in columns; addresses and sizes in bytes, times in ns.

    Times count from the start of the step, and residencies are cut to it. `role` indexes ROLES; `storage` is the
    trace's, -1 for a temporary, and `op` the one that the bytes were asked for, -1 for what the replay starts with;
    `recomputed` says that an op run again made the value, `earlier` that it was there before the step, `evicted` that a
    search ended its residency. `phases` are the starts of the phases of the step, `length_ns` its length; `began_ns` is
    when it began, by the schedule's clock.
    """

    address: Ints
    bytes: Ints
    begin_ns: Ints
    end_ns: Ints
    role: Ints
    storage: Ints
    op: Ints
    recomputed: Bools
    earlier: Bools
    evicted: Bools
    phases: dict[str, int]
    step: int
    length_ns: int
    began_ns: int

    def __len__(self) -> int:
        return len(self.address)


def residences(schedule: "Schedule", trace: "Trace", step: int | None = None) -> Residences:
    """The residencies during `step` (from 0; None: the last one that the schedule has).

    CoopsimError if the schedule is another trace's, has no addresses (`counter`), or no such step.
    """
    if schedule.header.get("trace", trace.content_hash) != trace.content_hash:
        raise CoopsimError(f"the schedule was not made from this trace ({trace.label}): their content hashes differ")
    steps = int(schedule.step.max()) + 1 if len(schedule) else 0
    step = steps - 1 if step is None else step
    if not 0 <= step < steps:
        raise CoopsimError(f"the schedule has no step {step}; it has {steps}, counted from 0")
    nothing_came = (Action.REFUSE, Action.OFFLOAD, Action.FETCH, Action.DISCARD)
    schedule = schedule.select(~np.isin(schedule.action, nothing_came))
    action, time = schedule.action, schedule.time_ns
    is_op = np.isin(action, (Action.COMPUTE, Action.RECOMPUTE))
    if (schedule.address[~is_op] < 0).any():
        raise CoopsimError(
            f"allocator {schedule.header.get('allocator', '')!r} has no addresses, so there is no map of them"
        )

    rows = np.flatnonzero(~is_op)
    rows = rows[np.argsort(schedule.address[rows], kind="stable")]  # by address, then in order
    starts = np.isin(action[rows], (Action.ALLOC, Action.MOVE))
    same = np.append(np.diff(schedule.address[rows]) == 0, np.zeros(min(len(rows), 1), np.bool_))
    following = np.where(same, np.append(rows[1:], 0), -1)[starts]  # the row that ends the residency, -1 if none does
    rows = rows[starts]
    total = _end(schedule, trace)
    end = np.where(following < 0, total, time[following])
    evicted = (following >= 0) & (action[following] == Action.EVICT) & (schedule.step[following] == step)

    first = int(np.flatnonzero(schedule.step == step)[0])
    later = np.flatnonzero(schedule.step > step)
    t0, t1 = int(time[first]), int(time[later[0]]) if len(later) else total
    begin = time[rows]
    seen = (begin < t1) & (end > t0) & (end > begin)
    rows, begin, end, evicted = rows[seen], begin[seen], end[seen], evicted[seen]
    return Residences(
        address=schedule.address[rows],
        bytes=schedule.bytes[rows],
        begin_ns=np.maximum(begin, t0) - t0,
        end_ns=np.minimum(end, t1) - t0,
        role=_roles(schedule, trace)[rows],
        storage=schedule.storage[rows],
        op=schedule.op[rows],
        recomputed=schedule.serves_again()[rows],
        earlier=begin < t0,
        evicted=evicted,
        phases=_phases(schedule, trace, step, t0),
        step=step,
        length_ns=t1 - t0,
        began_ns=t0,
    )


def _end(schedule: "Schedule", trace: "Trace") -> int:
    """The clock after the last action."""
    if not len(schedule):
        return 0
    runs_op = schedule.action[-1] in (Action.COMPUTE, Action.RECOMPUTE)
    return int(schedule.time_ns[-1]) + (int(trace.cost_ns[schedule.op[-1]]) if runs_op else 0)


def _roles(schedule: "Schedule", trace: "Trace") -> Ints:
    """For each row the index in ROLES of its value; those without a storage are temporaries."""
    of_storage = np.array([ROLES.index(r) for r in trace.role] + [ROLES.index(Role.TEMPORARY)], np.int64)
    return of_storage[schedule.storage]  # -1 takes the last


def _phases(schedule: "Schedule", trace: "Trace", step: int, t0: int) -> dict[str, int]:
    """When the program first gets to each phase of the step, from its start."""
    first_run = np.flatnonzero((schedule.step == step) & (schedule.action == Action.COMPUTE))
    phase = np.array(trace.phase, dtype=object)[schedule.op[first_run]]
    found = {str(p): np.flatnonzero(phase == p) for p in Phase}
    return {p: int(schedule.time_ns[first_run[at[0]]]) - t0 for p, at in found.items() if len(at)}


def cells(r: Residences, budget: int, rows: int, columns: int) -> Cells:
    """The map as a grid, in which thousands of small residencies become a picture: what most of each cell holds.

    That is an index of ROLES, RECOMPUTED, or FREE. The first row is at address 0.

    A cell is `budget / rows` bytes high and `r.length_ns / columns` long. A residency less than a cell high is seen
    if it is long, or if others of its kind fill the cell with it.
    """
    kind = np.where(r.recomputed, RECOMPUTED, r.role)
    low, high = r.address / budget * rows, (r.address + r.bytes) / budget * rows
    begin, end = r.begin_ns / r.length_ns * columns, r.end_ns / r.length_ns * columns
    thin = (high - low < 1) & (end - begin >= _LONG * columns)  # in one row, that of the middle
    first = np.where(thin, (low + high) / 2, low).astype(np.intp).clip(0, rows - 1)
    last = np.where(thin, first, np.ceil(high).astype(np.intp) - 1).clip(first, rows - 1)

    residency = np.repeat(np.arange(len(r)), last - first + 1)
    row = (
        np.arange(len(residency))
        - np.repeat(np.cumsum(last - first + 1) - (last - first + 1), last - first + 1)
        + first[residency]
    )
    share = np.minimum(high[residency], row + 1) - np.maximum(low[residency], row)
    share = np.where(thin[residency], np.maximum(high - low, _SEEN)[residency], share)
    steps = np.zeros((RECOMPUTED + 1, rows, columns + 2))  # what is added from each column to the next
    for at, sign in ((begin[residency], 1), (end[residency], -1)):
        column = at.astype(np.intp)
        part = at - column
        np.add.at(steps, (kind[residency], row, column), sign * share * (1 - part))
        np.add.at(steps, (kind[residency], row, column + 1), sign * share * part)
    held = steps.cumsum(axis=2)[:, :, :columns]
    return np.where(held.sum(axis=0) >= 0.5, held.argmax(axis=0), FREE)


def largest_stretch(r: Residences, budget: int, time_ns: int) -> tuple[int, int]:
    """Where, at that time of the step, the longest run of memory begins and ends in which nothing of PERMANENT lies."""
    here = (r.begin_ns <= time_ns) & (time_ns < r.end_ns) & np.isin(r.role, PERMANENT)
    order = np.argsort(r.address[here], kind="stable")
    low = r.address[here][order]
    begins, ends = np.append(0, low + r.bytes[here][order]), np.append(low, budget)
    k = int((ends - begins).argmax())
    return int(begins[k]), int(ends[k])
