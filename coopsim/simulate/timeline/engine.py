"""The simulation: a host thread, a launch queue for each stream, and the streams, as SimPy processes."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.cards.link import CopyEngines, Link
from coopsim.simulate.timeline.work import NOTHING, TaskKind, Tasks

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TaskTimes:
    """When each task was launched, started and ended; when the work before each of the host's events began and when
    the event was over; when the host was done, and all."""

    launched: Ints
    start: Ints
    end: Ints
    begin: Ints
    over: Ints
    host_end_ns: int
    total_ns: int


def run(
    tasks: Tasks,
    work: list[int],
    then: list[int],
    waits: list[tuple[int, ...]],
    capacity: int,
    link: Link | None = None,
) -> TaskTimes:
    """The host works for work[k], then launches task then[k], or waits for all that it has launched.

    A stream takes its tasks in order from a queue of `capacity`, waits for the others that it must wait for, and runs.
    A copy to the host or back is given to its engine, in order, when what it waits for is done.
    """
    import simpy

    streams, costs = tasks.stream.tolist(), tasks.cost_ns.tolist()
    launched, start, end = (np.zeros(len(tasks), np.int64) for _ in range(3))
    begin, over = (np.zeros(len(work), np.int64) for _ in range(2))
    env = simpy.Environment()
    queues = {s: simpy.Store(env, capacity) for s in sorted(set(streams))}
    synced = _last_launched(then, streams)
    awaited = {t for ts in waits for t in ts} | {t for ts in synced.values() for t in ts}
    done = {t: env.event() for t in sorted(awaited)}

    def host() -> Generator[simpy.Event, Any, int]:
        for k, task in enumerate(then):
            begin[k] = env.now
            yield env.timeout(work[k])
            if task >= 0:
                yield queues[streams[task]].put(task)
                launched[task] = env.now
            elif task != NOTHING:
                for t in synced[k]:
                    yield done[t]
            over[k] = env.now
        return int(env.now)

    def stream(queue: Any, n: int) -> Generator[simpy.Event, Any, None]:
        for _ in range(n):
            task = yield queue.get()
            for other in waits[task]:
                yield done[other]
            start[task] = env.now
            yield env.timeout(costs[task])
            end[task] = env.now
            if task in done:
                done[task].succeed()

    engine_of = {TaskKind.OFFLOAD: CopyEngines.OUT, TaskKind.FETCH: CopyEngines.BACK}
    copying = CopyEngines(link) if link is not None else None
    transfers = [t for t, kind in enumerate(tasks.kind.tolist()) if kind in engine_of]
    given = {t: env.event() for t in transfers}
    before = dict(zip(transfers[1:], transfers, strict=False))

    def transfer(task: int, mine: int) -> Generator[simpy.Event, Any, None]:
        assert copying is not None
        for other in waits[task]:
            yield done[other]
        if task in before:
            yield given[before[task]]
        start[task], end[task] = copying.give(mine, costs[task], int(env.now))
        given[task].succeed()
        yield env.timeout(copying.free_at[mine] - env.now)
        if task in done:
            done[task].succeed()

    def transfers_of(queue: Any, mine: int, n: int) -> Generator[simpy.Event, Any, None]:
        for _ in range(n):
            task = yield queue.get()
            env.process(transfer(task, mine))

    finished = env.process(host())
    engines = {streams[t]: engine_of[TaskKind(int(tasks.kind[t]))] for t in transfers}
    for s, queue in queues.items():
        n = streams.count(s)
        env.process(transfers_of(queue, engines[s], n) if s in engines else stream(queue, n))
    host_end: Any = env.run(until=finished)
    env.run()  # what is still in the queues
    return TaskTimes(launched, start, end, begin, over, host_end, int(env.now))


def _last_launched(then: list[int], streams: list[int]) -> dict[int, list[int]]:
    """For each wait of the host, the last task of each stream before it."""
    last: dict[int, int] = {}
    found = {}
    for k, task in enumerate(then):
        if task >= 0:
            last[streams[task]] = task
        elif task != NOTHING:
            found[k] = list(last.values())
    return found
