"""Make a trace of a recording (recording.py): number the storages, give each a role, and join the end to the start."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coopsim.base.types import Phase, Role
from coopsim.record.observe import layout, request_order
from coopsim.record.observe.recording import Free, NextStep, Op, Recording
from coopsim.record.observe.storages import Storage
from coopsim.record.observe.temporaries import Entry, high_water
from coopsim.trace import Trace, TraceBuilder

#: Roles whose storages are interchangeable from step to step; any other is replaced by one of the same role only.
_ANY = {Role.INPUT, Role.ACTIVATION, Role.TEMPORARY}


@dataclass(frozen=True)
class Handover:
    """How the storages at the end of a recording continue those at its start.

    `pairs` maps a storage that appeared and is still alive to the one that it replaces. `leaked` are alive at the end
    and replace none; the trace frees them at its end. `lost` were alive at the start, are gone, and are not replaced.
    """

    pairs: dict[Storage, Storage]
    leaked: list[Storage]
    lost: list[Storage]


def _handover(start: Iterable[Storage], appeared: Iterable[Storage]) -> Handover:
    """Pair the storages that appeared and are alive with those of `start` that are gone, the first with the first.

    A pair has the same bytes and the same role, where inputs, activations, temporaries and no role count as one.
    """
    gone: dict[tuple[str, int], deque[Storage]] = defaultdict(deque)
    for storage in start:
        if not storage.alive:
            gone[_place(storage)].append(storage)
    pairs, leaked = {}, []
    for storage in appeared:
        if storage.alive and gone[_place(storage)]:
            pairs[storage] = gone[_place(storage)].popleft()
        elif storage.alive:
            leaked.append(storage)
    return Handover(pairs, leaked, [s for group in gone.values() for s in group])


def _place(storage: Storage) -> tuple[str, int]:
    return "" if storage.role in _ANY else str(storage.role), storage.nbytes


def assemble(recording: Recording, history: Sequence[Entry], header: Mapping[str, Any]) -> Trace:
    """Return the trace of a recording. `history`: the allocator's entries (History.stop), or none.

    Temporaries of an op are those in the history. The trace's header is `header`, with the counts of ops, of leaked and
    of lost storages (see Handover), how many frees the history places at the same op as the recording, and the memory
    layout at the start, where it is known.
    """
    temporaries, asked = high_water(list(history)), request_order.by_op(history)
    ops = [event for event in recording.events if isinstance(event, Op)]
    appeared = [storage for op in ops for storage in op.creates]
    _name_the_rest(recording, ops)
    end = _handover(recording.start, appeared)

    builder = TraceBuilder()
    number = {s: builder.storage(s.nbytes, s.role or Role.INPUT, alive_at_start=True) for s in recording.start}
    number |= {s: builder.storage(s.nbytes, s.role or Role.ACTIVATION) for s in appeared}
    for event in recording.events:
        match event:
            case NextStep():
                builder.next_step()
            case Free(storage):
                if storage in number:
                    builder.free(number[storage])
            case Op():
                wanted = request_order.encode(asked[event.number], event.creates) if event.number in asked else ()
                builder.op(
                    event.name,
                    reads=[number[s] for s in event.reads],
                    mutates=[number[s] for s in event.mutates],
                    creates=[number[s] for s in event.creates],
                    temporaries=temporaries.get(event.number, ()),
                    requests=wanted,
                    cost_ns=event.cost_ns,
                    flops=event.flops,
                    bytes_moved=event.bytes_moved,
                    phase=event.phase,
                    module=event.module,
                    stream=event.stream,
                    random=event.random,
                    peers=event.peers,
                )
    for storage in end.leaked:
        builder.free(number[storage])
    for storage, predecessor in end.pairs.items():
        builder.becomes(number[storage], number[predecessor])
    counts = {
        "ops_dispatched": recording.dispatched,
        "ops_kept": len(ops),
        "leaked_storages": len(end.leaked),
        "lost_storages": len(end.lost),
    }
    allocator: dict[str, Any] = {}
    if history:
        allocator["frees_as_allocator"], allocator["frees"] = request_order.agreement(recording, history)
    at_start = layout.describe(recording.segments, recording.start, number)
    if at_start is not None:
        allocator["memory_at_start"] = at_start
    return builder.build(dict(header) | counts | allocator)


def _name_the_rest(recording: Recording, ops: list[Op]) -> None:
    """Give a role to the storages that no object of the program identifies."""
    for storage in recording.start:
        storage.role = storage.role or Role.INPUT
    for op in ops:
        for storage in op.creates:
            passing = op.phase is Phase.OPTIMIZER and not storage.alive
            storage.role = storage.role or (Role.TEMPORARY if passing else Role.ACTIVATION)
