"""What a trace asks of its allocator: one reader for all who perform its requests somewhere."""

from collections.abc import Iterator
from typing import NamedTuple

from coopsim.trace.table import Trace


class Ask(NamedTuple):
    """Memory is taken for `holder`, or given back.

    holder: a storage; or, below 0, -1 - k for temporary k of op `op`. op: -1 before the first. nth: how many of this
    op's requests took memory before this one.
    """

    take: bool
    holder: int
    bytes: int
    op: int
    nth: int


def asks(trace: Trace) -> Iterator[Ask]:
    """The recorded steps once, in the order in which memory was asked for and given back (docs/formats.md, `requests`).

    What is there at the start is not asked for. Where a trace does not tell the order, an op takes what it creates,
    then its temporaries, which it gives back at once.
    """
    frees: list[list[int]] = [[] for _ in range(trace.n_ops + 1)]
    for storage, op in zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True):
        frees[op + 1].append(storage)
    sizes, creates = trace.bytes.tolist(), trace.creates.rows()
    requests, temporaries = trace.requests.rows(), trace.temporaries.rows()
    for op in range(-1, trace.n_ops):
        if op >= 0:
            codes = requests[op] or _untold(len(creates[op]), temporaries[op])
            yield from _of_op(op, codes, creates[op], sizes)
        for storage in frees[op + 1]:
            yield Ask(False, storage, sizes[storage], op, 0)


def _of_op(op: int, codes: list[int], creates: list[int], sizes: list[int]) -> Iterator[Ask]:
    taken: list[int] = []  # bytes of the temporaries so far
    nth = 0
    for code in codes:
        if code < -len(creates):
            k = -1 - len(creates) - code
            yield Ask(False, -1 - k, taken[k], op, nth)
            continue
        if code > 0:
            yield Ask(True, -1 - len(taken), code, op, nth)
            taken.append(code)
        else:
            storage = creates[-1 - code]
            yield Ask(True, storage, sizes[storage], op, nth)
        nth += 1


def _untold(n: int, temporaries: list[int]) -> list[int]:
    taken = [nbytes for nbytes in temporaries if nbytes > 0]
    return [*range(-1, -n - 1, -1), *taken, *range(-n - 1, -n - 1 - len(taken), -1)]
