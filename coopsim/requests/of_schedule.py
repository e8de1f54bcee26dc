"""The requests of a schedule: every block that a replay took and gave back, recomputation included."""

from coopsim.requests.requests import Requests
from coopsim.requests.writer import Writer
from coopsim.schedule import GIVES_BACK, Schedule
from coopsim.types import Action, CoopsimError


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
