"""List what each op requested of the allocator, in order, and check the recorded frees against the allocator's history.

The same requests in another order within an op may get other addresses, so the order is part of the trace (its column
`requests`; docs/reference/files.md has the code).
"""

import bisect
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from coopsim.record.observe.recording import Free, Op, Recording
from coopsim.record.observe.storages import Storage
from coopsim.record.observe.temporaries import Entry, inside, since


def by_op(entries: Iterable[Entry]) -> dict[int, list[tuple[int, int]]]:
    """Return the requests of each op, by its number and in order, from the allocator's history.

    A request is (address, bytes) for an allocation, (address, 0) for a free of what the same op has allocated. Ops
    without requests are left out.
    """
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    taken: dict[int, int | None] = {}
    for entry in entries:
        op, address = inside(entry), entry["addr"]
        if entry["action"] == "alloc":
            taken[address] = op
            if op is not None:
                found[op].append((address, entry["size"]))
        elif entry["action"] == "free_requested" and taken.pop(address, None) == op and op is not None:
            found[op].append((address, 0))
    return found


def encode(requests: Sequence[tuple[int, int]], creates: Sequence[Storage]) -> list[int]:
    """Encode an op's requests (see `by_op`) for the trace; [] if it only allocated what it creates, in that order.

    A number above 0 allocates a temporary of so many bytes. Below 0, with n storages in `creates`: -1 to -n allocate
    the first to the last of them; -n-1, -n-2, … free the first, second, … temporary of this list.
    """
    last = {address: i for i, (address, size) in enumerate(requests) if size}
    made = {storage.address: k for k, storage in enumerate(creates)}
    kept = {i for address, i in last.items() if (address, 0) not in requests[i:]}
    codes: list[int] = []
    temporaries: dict[int, int] = {}  # by address: which of this op's
    count = 0
    for i, (address, size) in enumerate(requests):
        if not size:
            codes.append(-len(creates) - 1 - temporaries[address])
        elif i in kept and address in made:
            codes.append(-1 - made.pop(address))
        else:
            temporaries[address] = count
            count += 1
            codes.append(size)
    codes += [-1 - k for k in made.values()]
    return [] if codes == [-1 - k for k in range(len(creates))] else codes


def agreement(recording: Recording, entries: Iterable[Entry]) -> tuple[int, int]:
    """Return how many frees of the recording are where the allocator's history allows them, and how many there are.

    `entries` is the history (History.stop). A free is allowed from the first to the last op at which it may have been.
    """
    kept = [event.number for event in recording.events if isinstance(event, Op)]
    frees = _frees(entries)
    born: dict[Storage, int] = dict.fromkeys(recording.start, -1)
    agreeing = total = at = 0
    for event in recording.events:
        if isinstance(event, Op):
            born |= dict.fromkeys(event.creates, event.number)
            at += 1
        elif isinstance(event, Free):
            total += 1
            ops = frees.get((born.get(event.storage, -1), event.storage.address))
            agreeing += ops is not None and bisect.bisect_right(kept, ops[0]) <= at <= bisect.bisect_right(kept, ops[1])
    return agreeing, total


def _frees(entries: Iterable[Entry]) -> Mapping[tuple[int, int], tuple[int, int]]:
    """Return the first and the last op at which memory can have been freed, by (op that allocated it, address).

    -1 is before the first op. Each thread tags its own entries, but the history has one order, in which ops only
    increase. So an entry of the thread that ran the latest op is at that op. Of another thread's entry only the entries
    around it are known: autograd's thread runs ops, some of which request nothing, and then the program's thread frees
    what it gave to `backward`.
    """
    found: dict[tuple[int, int], tuple[int, int]] = {}
    taken: dict[int, int] = {}
    behind: list[tuple[int, int]] = []  # keys of `found` whose last op is not known yet
    now = -1
    for entry in entries:
        op = since(entry)
        if op > now:
            found |= {key: (found[key][0], op if inside(entry) is None else op - 1) for key in behind}
            behind, now = [], op
        if entry["action"] == "alloc":
            taken[entry["addr"]] = now
        elif entry["action"] == "free_requested":
            key = taken.pop(entry["addr"], -1), entry["addr"]
            found[key] = now, now
            if op < now:
                behind.append(key)
    return found | {key: (found[key][0], sys.maxsize) for key in behind}
