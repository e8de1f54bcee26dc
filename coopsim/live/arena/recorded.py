"""The requests of a recorded op to the arena, in the form of a trace."""

from collections.abc import Sequence

from coopsim.observe.request_order import encode
from coopsim.observe.storages import Storage

Log = Sequence[tuple[int, int]]  #: library.Arena.logged


def of_op(log: Log, base: int, creates: Sequence[Storage]) -> tuple[list[int], list[int]]:
    """The temporaries of an op, each in bytes, and its requests in order, encoded as in trace.Trace.

    log: what it requested and freed (Arena.logged).

    The temporaries are those alive together when they took most, in bytes. base: the address of the arena. creates: the
    storages that the op has made. Blocks that it took besides and did not free, as cuBLAS's workspaces, are left out:
    the op does not request them when it runs again.
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
