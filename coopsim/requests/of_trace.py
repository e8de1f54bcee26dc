"""The requests of a trace: what each op took and gave back, temporaries included, in its order."""

from coopsim.requests.stream import RequestStream, Writer
from coopsim.trace import Trace

_UNUSED = -1  #: in a layout: a block that holds nothing


def of_trace(trace: Trace, *, rounds: int = 1) -> RequestStream:
    """What the recorded steps ask for, `rounds` times over; `source` is the op, counted through the rounds.

    Memory starts as it was laid out when the recording began; where the trace does not say how, with one block for
    each storage that was there.
    """
    to = Writer()
    layout = trace.header.get("memory_at_start")
    if layout is None:
        start = trace.alive_at_start.nonzero()[0].tolist()
        number = {s: to.take(int(trace.bytes[s]), label=str(trace.role[s])) for s in start}
    else:
        places = to.restore(
            (total, 0, [(size, _label(trace, holds)) for size, holds in held]) for total, held in layout
        )
        number = {layout[s][1][b][1]: n for (s, b), n in places.items() if layout[s][1][b][1] >= 0}
    prologue = len(to)
    frees: list[list[int]] = [[] for _ in range(trace.n_ops + 1)]
    for storage, op in zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True):
        frees[op + 1].append(storage)
    sizes, creates, becomes = trace.bytes.tolist(), trace.creates.rows(), trace.becomes.tolist()
    requests, temporaries, streams = trace.requests.rows(), trace.temporaries.rows(), trace.stream.tolist()
    for round_ in range(rounds):
        for op in range(-1, trace.n_ops):
            source = round_ * trace.n_ops + max(op, 0)
            if op >= 0:
                codes = requests[op] or _plain(len(creates[op]), temporaries[op])
                label = f"{trace.name[op]} {trace.module[op]}".rstrip()
                _op(codes, creates[op], sizes, streams[op], number, to, source, label)
            for storage in frees[op + 1]:
                to.give_back(number.pop(storage), source)
        after = {becomes[s]: n for s, n in number.items() if becomes[s] >= 0}
        for storage in sorted(number):
            if becomes[storage] < 0:
                to.give_back(number[storage], source)
        number = after
    return to.stream(prologue)


def _label(trace: Trace, holds: int) -> str | None:
    if holds == _UNUSED:
        return None
    return str(trace.role[holds]) if holds >= 0 else "a library's workspace"


def _plain(n: int, temporaries: list[int]) -> list[int]:
    """The order where a trace tells none: the temporaries, then what the op creates; at the end they go back."""
    return [*temporaries, *range(-1, -n - 1, -1), *range(-n - 1, -n - 1 - len(temporaries), -1)]


def _op(
    codes: list[int],
    creates: list[int],
    sizes: list[int],
    stream: int,
    number: dict[int, int],
    to: Writer,
    source: int,
    label: str,
) -> None:
    """One op's requests (docs/formats.md, column `requests`)."""
    taken: list[int] = []
    for code in codes:
        if code > 0:
            taken.append(to.take(code, stream, source, label))
        elif code >= -len(creates):
            storage = creates[-1 - code]
            number[storage] = to.take(sizes[storage], stream, source, label)
        else:
            to.give_back(taken[-1 - len(creates) - code], source)
