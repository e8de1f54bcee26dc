"""What a recorded op asked of the arena, as a trace has it."""

from collections.abc import Sequence

from coopsim.observe.request_order import encode
from coopsim.observe.storages import Storage

Log = Sequence[tuple[int, int]]  #: library.Arena.logged


def of_op(log: Log, base: int, creates: Sequence[Storage]) -> tuple[list[int], list[int]]:
    """Its temporaries, those that were there together when they took most; and its requests, in order.

    base: the address of the arena. creates: storages that the op has made. What else it has taken and not given back,
    as cuBLAS's workspaces, stays for good: the op does not ask for it when it runs again.
    """
    made = {storage.address for storage in creates}
    asked = [(base + offset, nbytes) for offset, nbytes in log]
    asked = [(at, n) for i, (at, n) in enumerate(asked) if not n or at in made or (at, 0) in asked[i:]]
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
