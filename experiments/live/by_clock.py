"""The time of planned steps by the phantom's clock.

Ops take their cost in the trace, the first time and again; those that the trace leaves out, as views, take none. Copies
on the card (of older versions, of statistics that an op updates when it is run again) take what their bytes take.
Copies between card and host take what the link takes; the phantom counts these itself.

The host takes what the phantom charges per op, or what a model of live's host says (`Host`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from coopsim.cards.link import CopyEngines, Link


@dataclass(frozen=True)
class Host:
    """What the host takes, in ns: of an op that is followed, views included; of one that is run again; of a copy.

    The phantom itself must charge nothing for ops and launches (FREE). link: what copies take, latency and the other
    direction included; None: what the phantom says, which knows neither. It must be no faster than the phantom's.
    """

    op: int
    again: int
    copy: int
    link: Link | None = None


FREE = {"COOPSIM_PHANTOM_DISPATCH": "0", "COOPSIM_PHANTOM_LAUNCH": "0"}  #: variables of such a phantom


@dataclass
class Copied:
    """A copy between card and host; times by the clock, in ns.

    way: OUT or BACK (area.py). issued: the host had issued it. late: the card had nothing left to do by then. held: the
    host waited for it, as it does for memory that is not pinned. ended; stall: the ops' for it. makes: what the op
    takes that would have made the value again.
    """

    way: int
    nbytes: int
    issued: int
    late: bool
    held: bool
    ended: int
    makes: int
    stall: int = 0


@dataclass
class Clock:
    """Times in ns. now: by which all so far is done. end: the same of the ops, without waiting for it.

    stall_ns: how long ops have waited for copies so far. copies: all so far.
    """

    now: Callable[[], int]
    end: Callable[[], int]
    stall_ns: int = 0
    copies: list[Copied] = field(default_factory=list)


@contextmanager
def timed(host: Host | None = None) -> Iterator[Clock]:
    """Inside, planned ops take time on the clock that is yielded. Sessions made there follow every op in Python."""
    import torch

    from coopsim.live import observer
    from coopsim.live.copies import Copies
    from coopsim.live.device import cost_model
    from coopsim.live.follow import Follow
    from coopsim.live.following import Following
    from coopsim.live.plan import Plan, Row
    from coopsim.live.room import Room
    from coopsim.live.streams import Streams
    from coopsim.live.streams import engines as streams_of
    from coopsim.live.tracked import Call
    from coopsim.live.values import Values
    from coopsim.phantom.control import Control
    from coopsim.record.observe.torch_private import raw_stream

    control, model = Control(), cost_model("cuda")
    makes: dict[tuple[int, int], int | None] = {}  # by value, the cost of the op that makes it
    costs: list[int | None] = []  # of what runs, the innermost last; None: it takes no time, on the host neither
    begin, run, wait = Follow.begin, Following._run, Streams.wait
    offload, fetch, give = Copies.offload, Copies.fetch, Streams.begin
    again, copy, allocate, attempt = Values.run, Values.copy, Values.allocate, Room.attempt

    def busy(ns: int) -> None:
        control.host_is_busy(ns)

    def at(cost: int | None, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        costs.append(cost)
        try:
            return call(*args, **kwargs)
        finally:
            costs.pop()

    def timing(cost: int | None, call: Callable[..., Any], *args: Any) -> Any:
        if cost is None:
            return call(*args)
        control.op_begins()
        out = call(*args)
        control.op_ends(raw_stream(0), cost)
        return out

    def cost_of(plan: Plan, op: int) -> int | None:
        return int(plan.trace.cost_ns[op]) if op >= 0 else None

    def beginning(self: Follow, *rest: Any) -> None:
        makes.clear()
        makes.update((value, cost_of(self.plan, op)) for value, op in self.plan._maker.items())
        begin(self, *rest)

    def running(self: Following, row: Row, *rest: Any) -> Any:
        assert self.signature.plan is not None
        busy(host.op if host else 0)
        return at(cost_of(self.signature.plan, row.entry.op), run, self, row, *rest)

    def running_again(self: Values, call: Call, *rest: Any) -> None:
        tracked, version = call.writes[0]
        busy(host.again if host else 0)
        at(makes.get((tracked.number, version), 0), again, self, call, *rest)

    def copying(self: Values, storage: torch.UntypedStorage, *rest: Any) -> Any:
        return timing(model.moving(2 * storage.nbytes()), at, None, copy, self, storage, *rest)

    def allocating(self: Values, *args: Any, **kwargs: Any) -> Any:
        return at(None if costs and costs[-1] is None else 0, allocate, self, *args, **kwargs)

    def attempting(self: Room, *args: Any) -> Any:
        return timing(costs[-1] if costs else 0, attempt, self, *args)

    def now() -> int:
        torch.cuda.synchronize()
        return control.now_ns

    def end() -> int:
        return control.stream_end_ns(raw_stream(0))

    clock = Clock(now, end)
    values: list[tuple[int, int]] = []  # of which a copy begins
    engines = CopyEngines(host.link) if host and host.link else None
    bus = int(os.environ["COOPSIM_PHANTOM_BUS"])  # MB/s
    by_mark: dict[Any, Copied] = {}

    def offloading(self: Copies, key: tuple[int, int], *rest: Any) -> None:
        values.append(key)
        offload(self, key, *rest)

    def fetching(self: Copies, key: tuple[int, int], *rest: Any) -> Any:
        values.append(key)
        return fetch(self, key, *rest)

    def giving(self: Streams, way: int, to: torch.Tensor, *rest: Any) -> Any:
        busy(host.copy if host else 0)
        before, reached = control.now_ns, end()
        mark = give(self, way, to, *rest)
        engine = streams_of(0)[way]
        done = control.stream_end_ns(engine.cuda_stream)
        held = control.now_ns >= done
        if host and host.link and engines:
            began = done - to.nbytes * 1000 // bus
            _, end_by_link = engines.give(way, host.link.alone_ns(to.nbytes), began)
            if end_by_link > done:
                control.op_begins()
                control.op_ends(engine.cuda_stream, end_by_link - done)
                engine.record_event(mark)
                done = end_by_link
        copied = Copied(way, to.nbytes, before, reached <= before, held, done, makes.get(values[-1]) or 0)
        by_mark[mark] = copied
        clock.copies.append(copied)
        return mark

    def waiting(self: Streams, way: int, mark: Any) -> None:
        before = end()
        wait(self, way, mark)
        stall = max(end() - before, 0)
        by_mark[mark].stall += stall
        clock.stall_ns += stall

    ours: dict[Any, dict[str, Any]] = {
        Follow: {"begin": beginning},
        Following: {"_run": running},
        Values: {"run": running_again, "copy": copying, "allocate": allocating},
        Room: {"attempt": attempting},
        Streams: {"wait": waiting, "begin": giving},
        Copies: {"offload": offloading, "fetch": fetching},
        observer: {"find": lambda **_: (None, "ops are timed in Python")},
    }
    with ExitStack() as replaced:
        for where, what in ours.items():
            replaced.enter_context(patch.multiple(where, **what))
        yield clock
