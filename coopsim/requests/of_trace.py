"""The requests of a trace: what each op took and gave back, temporaries included, in its order."""

from coopsim.requests.stream import RequestStream, Writer
from coopsim.trace import Trace
from coopsim.trace.asks import asks

_UNUSED = -1  #: in a layout: a block that holds nothing


def of_trace(trace: Trace, *, rounds: int = 1) -> RequestStream:
    """What the recorded steps ask for, `rounds` times over; `source` is the op, counted through the rounds.

    Memory starts as it was laid out when the recording began; where the trace does not say how, with one block for
    each storage that was there. One that the layout lacks (PyTorch makes scalars on the GPU past the dispatcher, which
    the recorder meets when an op reads them) is taken then, too. What a step begins with and uses up, such as an
    input, is taken anew before the next.
    """
    to = Writer()
    layout = trace.header.get("memory_at_start")
    number = {}
    if layout is not None:
        places = to.restore(
            (total, 0, [(size, _label(trace, holds)) for size, holds in held]) for total, held in layout
        )
        number = {layout[s][1][b][1]: n for (s, b), n in places.items() if layout[s][1][b][1] >= 0}
    starts = trace.alive_at_start.nonzero()[0].tolist()
    for storage in starts:
        if storage not in number:
            number[storage] = to.take(int(trace.bytes[storage]), label=str(trace.role[storage]))
    prologue = len(to)
    becomes, streams = trace.becomes.tolist(), trace.stream.tolist()
    for round_ in range(rounds):
        for storage in starts:
            if storage not in number:
                number[storage] = to.take(int(trace.bytes[storage]), 0, round_ * trace.n_ops, str(trace.role[storage]))
        for take, holder, nbytes, op, _ in asks(trace):
            source = round_ * trace.n_ops + max(op, 0)
            if take:
                number[holder] = to.take(nbytes, streams[op], source, f"{trace.name[op]} {trace.module[op]}".rstrip())
            else:
                to.give_back(number.pop(holder), source)
        source = round_ * trace.n_ops + max(trace.n_ops - 1, 0)
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
