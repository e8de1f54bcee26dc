"""The requests of a schedule: every piece that a replay took and gave back, recomputation included."""

from coopsim.requests.stream import RequestStream, Writer
from coopsim.schedule import Schedule
from coopsim.types import Action, CoopsimError

_GIVES_BACK = frozenset({Action.EVICT, Action.RELEASE, Action.FREE})


def of_schedule(schedule: Schedule) -> RequestStream:
    """What the schedule asks for, all on one stream; `source` is its row. CoopsimError if it has no addresses."""
    to = Writer()
    number: dict[int, int] = {}
    for row, (action, _, _, storage, version, address, nbytes, _, _) in enumerate(schedule.rows()):
        if action == Action.ALLOC:
            if address < 0:
                raise CoopsimError(f"a {schedule.header.get('allocator', 'counter')} has no addresses to perform")
            number[address] = to.take(nbytes, 0, row, f"s{storage}.{version}")
        elif action in _GIVES_BACK:
            to.give_back(number.pop(address), row)
    return to.stream()
