"""What a recorded op asked of the arena, as a trace has it."""

from collections.abc import Sequence

from coopsim.capture.request_order import encode
from coopsim.capture.storages import Storage

Log = Sequence[tuple[int, int]]  #: library.Arena.logged


def of_op(log: Log, base: int, creates: Sequence[Storage]) -> tuple[list[int], list[int]]:
    """Its temporaries, those that were there together when they took most; and its requests, in order.

    base: the address of the arena. creates: storages that the op has made.
    """
    asked = [(base + offset, nbytes) for offset, nbytes in log]
    made = {storage.address for storage in creates}
    most: list[int] = []
    there: dict[int, int] = {}
    for i, (address, nbytes) in enumerate(asked):
        if not nbytes:
            there.pop(address, None)
        elif address not in made or (address, 0) in asked[i:]:
            there[address] = nbytes
            if sum(there.values()) > sum(most):
                most = list(there.values())
    return most, encode(asked, creates)
