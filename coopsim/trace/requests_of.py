"""The requests of a trace and of a schedule: what took memory and gave it back, in order."""

from collections.abc import Iterator
from typing import NamedTuple

from coopsim.base.types import Action, CoopsimError, Phase
from coopsim.trace import Trace
from coopsim.trace.build import EMPTY_CACHE
from coopsim.trace.requests import PHASES, Requests, Writer
from coopsim.trace.schedule import GIVES_BACK, Schedule

_UNUSED = -1  #: in a layout: a block that holds nothing
_AT_START = 0  #: the site of what is there before the program asks


def of_trace(trace: Trace, *, iterations: int = 1, layout: bool = True) -> Requests:
    """What the recorded steps ask for, `iterations` times over; `source` is the op, counted through the iterations.

    Memory starts as it was laid out when the recording began; where the trace does not say how, or without `layout`,
    with one block for each storage that was there. One that the layout lacks (PyTorch makes scalars on the GPU past
    the dispatcher, which the recorder meets when an op reads them) is taken then, too. What a step begins with and uses
    up, such as an input, is taken anew before the next. Nothing is asked for 0 bytes.
    """
    to = Writer()
    recorded = trace.header.get("memory_at_start") if layout else None
    number: dict[int, int] = {}  # by holder
    if recorded is not None:
        streams = trace.header.get("streams_at_start", [0] * len(recorded))
        places = to.restore(
            (total, stream, [(size, _label(trace, holds)) for size, holds in held])
            for (total, held), stream in zip(recorded, streams, strict=True)
        )
        number = {recorded[s][1][b][1]: n for (s, b), n in places.items() if recorded[s][1][b][1] >= 0}
    sizes = trace.bytes.tolist()
    starts = [s for s in trace.alive_at_start.nonzero()[0].tolist() if sizes[s]]
    for storage in starts:
        if storage not in number:
            number[storage] = to.take(sizes[storage], label=str(trace.role[storage]), site=_AT_START)
    prologue = len(to)
    becomes, streams, steps = trace.becomes.tolist(), trace.stream.tolist(), trace.step.tolist()
    phases = [PHASES.index(Phase(phase)) for phase in trace.phase]
    sites: dict[tuple[str, str, int, int], int] = {}
    for iteration in range(iterations):
        first = iteration * trace.n_ops
        to.step, to.phase = iteration * trace.n_steps, -1
        for storage in starts:
            if storage not in number:
                number[storage] = to.take(sizes[storage], 0, first, str(trace.role[storage]), _AT_START)
        for take, holder, nbytes, op, nth, empties in _performed(trace):
            if op >= 0:
                to.step, to.phase = iteration * trace.n_steps + steps[op], phases[op]
            if empties:
                to.empty(first + op)
            if not nbytes:
                continue
            if take:
                key = (trace.module[op], trace.name[op], phases[op], nth)
                site = sites.setdefault(key, _AT_START + 1 + len(sites))
                label = f"{trace.name[op]} {trace.module[op]}".rstrip()
                number[holder] = to.take(nbytes, streams[op], first + op, label, site)
            else:
                to.give_back(number.pop(holder), first + max(op, 0))
        after = {becomes[s]: n for s, n in number.items() if becomes[s] >= 0}
        for storage in sorted(number):
            if becomes[storage] < 0:
                to.give_back(number[storage], first + max(trace.n_ops - 1, 0))
        number = after
    return to.requests(prologue)


def _label(trace: Trace, holds: int) -> str | None:
    if holds == _UNUSED:
        return None
    return str(trace.role[holds]) if holds >= 0 else "a library's workspace"


class _Request(NamedTuple):
    """Memory is taken for `holder`, or given back; or the program empties the cache.

    holder: a storage; or, below 0, -1 - k for temporary k of op `op`. op: -1 before the first. nth: how many of this
    op's requests took memory before this one.
    """

    take: bool
    holder: int
    bytes: int
    op: int
    nth: int
    empties: bool = False


def _performed(trace: Trace) -> Iterator[_Request]:
    """The recorded steps once, in the order of what they asked for (docs/reference/files.md, `requests`).

    What is there at the start is not taken. Where a trace does not give the order, an op takes what it creates, then
    its temporaries, which it gives back at once.
    """
    frees: list[list[int]] = [[] for _ in range(trace.n_ops + 1)]
    for storage, op in zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True):
        frees[op + 1].append(storage)
    sizes, creates = trace.bytes.tolist(), trace.creates.rows()
    requests, temporaries = trace.requests.rows(), trace.temporaries.rows()
    for op in range(-1, trace.n_ops):
        if op >= 0 and trace.name[op] == EMPTY_CACHE:
            yield _Request(False, 0, 0, op, 0, empties=True)
        elif op >= 0:
            codes = requests[op] or _in_order(len(creates[op]), temporaries[op])
            yield from _of_op(op, codes, creates[op], sizes)
        for storage in frees[op + 1]:
            yield _Request(False, storage, sizes[storage], op, 0)


def _of_op(op: int, codes: list[int], creates: list[int], sizes: list[int]) -> Iterator[_Request]:
    taken: list[int] = []  # bytes of the temporaries so far
    nth = 0
    for code in codes:
        if code < -len(creates):
            k = -1 - len(creates) - code
            yield _Request(False, -1 - k, taken[k], op, nth)
            continue
        if code > 0:
            yield _Request(True, -1 - len(taken), code, op, nth)
            taken.append(code)
        else:
            storage = creates[-1 - code]
            yield _Request(True, storage, sizes[storage], op, nth)
        nth += 1


def _in_order(n: int, temporaries: list[int]) -> list[int]:
    taken = [nbytes for nbytes in temporaries if nbytes > 0]
    return [*range(-1, -n - 1, -1), *taken, *range(-n - 1, -n - 1 - len(taken), -1)]


def of_schedule(schedule: Schedule) -> Requests:
    """What the schedule asks for, all on one stream, also where it was refused; `source` is its row.

    CoopsimError if it has no addresses.
    """
    to = Writer()
    number: dict[int, int] = {}
    for row, (action, _, _, storage, version, address, nbytes, _, _) in enumerate(schedule.rows()):
        if action in (Action.ALLOC, Action.REFUSE):
            if address < 0 and action == Action.ALLOC:
                raise CoopsimError(f"a {schedule.header.get('allocator', 'counter')} has no addresses to perform")
            taken = to.take(nbytes, 0, row, f"s{storage}.{version}")
            if action == Action.ALLOC:
                number[address] = taken
        elif action in GIVES_BACK:
            to.give_back(number.pop(address), row)
    return to.requests()
