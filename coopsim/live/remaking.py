"""The order in which values are made again that have no memory. A value is a version of a storage's bytes.

A call is an op that ran, with its arguments (tracked.py).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from coopsim.live.tracked import Call, Value


def calls_for(wanted: Iterable[Value], there: Callable[[Value], bool]) -> list[Call] | None:
    """The calls that make these values, each after those that make what it reads; None if one has no call.

    there: whether a value has not to be made, as it is on the device or on the host.
    """
    found: dict[Call, None] = {}
    stack = [(value, False) for value in reversed(list(wanted))]
    while stack:
        value, ready = stack.pop()
        if there(value):
            continue
        call = value[0].makers.get(value[1])
        if call is None:
            return None
        if ready:
            found[call] = None
        elif call not in found:
            stack.append((value, True))
            stack += [(read, False) for read in reversed(call.reads)]
    return list(found)


def uses_of(calls: Iterable[Call]) -> Counter[Value]:
    """How many of these calls read each value."""
    return Counter(read for call in calls for read in call.reads)


def bytes_of(call: Call) -> int:
    """The bytes that it takes to run a call again, beside what it reads."""
    read = {tracked for tracked, _ in call.reads}
    changed = sum(tracked.nbytes for tracked in call.mutates)
    return changed + sum(tracked.nbytes for tracked in call.results if tracked is not None and tracked not in read)
