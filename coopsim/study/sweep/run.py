"""Bring the row of every point into the journal, on whatever workers there are, and survive the loss of some."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import closing

from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from coopsim.study.sweep import own
from coopsim.study.sweep.grid import Point
from coopsim.study.sweep.journal import Journal, Row
from coopsim.study.sweep.worker import SweepJob, core, hold, perform
from coopsim.study.sweep.workers import Workers
from coopsim.trace import Trace

_IN_FLIGHT = 256  # on an executor that we know nothing of
_TRIES = 4  # of one replay, all of which cost a worker

Then = Callable[[Point, Row], Iterable[Point]]


def run(
    points: Sequence[Point],
    traces: Mapping[str, Trace],
    journal: Journal,
    executor: Executor | Workers | None,
    on_row: Callable[[int, int], None] | None = None,
    then: Then = lambda _point, _row: (),
) -> list[Point]:
    """All points with a row in the journal: those given, and those that `then` asked for when it saw a row.

    Their order after the first ones depends on who was ready first. on_row(done, total) as in `sweep`.
    """
    plan = _Plan(journal, then)
    plan.add(points)
    report = on_row or _silent
    report(plan.done, len(plan.points))
    if plan.todo:
        with closing(_results(plan.todo, traces, executor)) as results:  # at once, not when somebody collects it
            for point, row in results:
                journal.append(point.id, row)
                plan.came(point.id, row)
                report(plan.done, len(plan.points))
    return plan.points


def _silent(_done: int, _total: int) -> None:
    """Nobody watches."""


class _Plan:
    """What is asked for, and how much of it is done."""

    def __init__(self, journal: Journal, then: Then) -> None:
        self.journal, self.then = journal, then
        self.points: list[Point] = []
        self.todo: deque[Point] = deque()
        self.waiting: dict[str, list[Point]] = {}
        self.done = 0

    def add(self, points: Iterable[Point]) -> None:
        """Points that are wanted; `todo` gets those that have no row and are not under way."""
        new = deque(points)
        while new:
            point = new.popleft()
            self.points.append(point)
            row = self.journal.rows.get(point.id)
            if row is not None:
                self.done += 1
                new.extend(self.then(point, row))
            elif point.id in self.waiting:
                self.waiting[point.id].append(point)
            else:
                self.waiting[point.id] = [point]
                self.todo.append(point)

    def came(self, name: str, row: Row) -> None:
        """A row has come in."""
        for point in self.waiting.pop(name):
            self.done += 1
            self.add(self.then(point, row))


def _results(
    todo: deque[Point], traces: Mapping[str, Trace], executor: Executor | Workers | None
) -> Generator[tuple[Point, Row]]:
    """Finished replays as they come. `todo` may grow between two of them."""
    if executor is None:
        hold(traces)
        while todo:
            point = todo.popleft()
            yield point, _here(point)
        return
    crew = _Crew(traces, executor)
    try:
        yield from crew.results(todo)
    except BaseException:
        crew.leave(now=True)
        raise
    crew.leave(now=False)


def _job(point: Point, policy: bytes | None = None) -> SweepJob:
    """The replay of a point. policy: that of a user's, packed."""
    s = point.setting
    what = policy or s.given or s.policy
    return SweepJob(s.trace_id, what, s.allocator, point.budget_bytes, s.options, core(), s.fingerprint)


def _here(point: Point) -> Row:
    """A replay that is done in this process. CoopsimError if the policy has changed meanwhile."""
    row = perform(_job(point))
    if not isinstance(row, dict):
        policy = point.setting.policy
        raise CoopsimError(f"policy {policy} is not what it was when the sweep began; start it again to go on")
    return row


class _Crew:
    """The workers, with a bounded number of replays in flight."""

    def __init__(self, traces: Mapping[str, Trace], executor: Executor | Workers) -> None:
        self.traces = traces
        self.workers = None if isinstance(executor, Executor) else executor
        self.executor = executor if isinstance(executor, Executor) else executor.start(traces)
        self.in_flight = self.workers.in_flight if self.workers else _IN_FLIGHT
        self.flying: dict[Future[Row | str | None], Point] = {}
        self.losses: Counter[str] = Counter()
        self.packed: dict[str, bytes | None] = {}  # of users' policies, by name; None: they are replayed here

    def results(self, todo: deque[Point]) -> Iterator[tuple[Point, Row]]:
        """Finished replays as they come, through losses of workers. CoopsimError if they go on being lost."""
        while todo or self.flying:
            whole = self._fill(todo)
            done = wait(self.flying, return_when=FIRST_COMPLETED).done if whole else set()
            for future in [f for f in self.flying if f in done]:
                try:
                    row = future.result()
                except (BrokenExecutor, CancelledError):
                    whole = False
                    continue
                except Exception as e:
                    if type(e).__name__ == "KilledWorker":  # Dask has tried it on several workers, and lost them all
                        raise self._fatal([self.flying[future]]) from None
                    raise
                point = self.flying.pop(future)
                if isinstance(row, str):
                    self._keep_here(point.setting.policy, "other processes read something else")
                    whole = self._submit(point)
                elif row is not None:
                    yield point, row
                elif whole:
                    whole = self._submit(point, self.traces[point.setting.trace_id])
                else:
                    todo.appendleft(point)
            if not whole:
                self._renew(todo)

    def _fill(self, todo: deque[Point]) -> bool:
        """Hand out what there is to do. Returns whether the executor takes it."""
        while todo and len(self.flying) < self.in_flight:
            if not self._submit(todo[0]):
                return False
            todo.popleft()
        return True

    def _submit(self, point: Point, *trace: Trace) -> bool:
        policy, given = point.setting.policy, point.setting.given
        if given is not None and policy not in self.packed:
            try:
                self.packed[policy] = own.packed(given)
            except CoopsimError as e:
                self._keep_here(policy, str(e))
        if self.packed.get(policy, b"") is None:
            hold(self.traces)
            done: Future[Row | str | None] = Future()
            done.set_result(_here(point))
            self.flying[done] = point
            return True
        try:
            self.flying[self.executor.submit(perform, _job(point, self.packed.get(policy)), *trace)] = point
        except BrokenExecutor:
            return False
        return True

    def _keep_here(self, policy: str, why: str) -> None:
        """Replay what this policy has left to do in this process, and say so once."""
        if self.packed.get(policy, b"") is not None:
            self.packed[policy] = None
            note(f"policy {policy} is replayed in this process: {why}")

    def _renew(self, todo: deque[Point]) -> None:
        """Fresh workers, for what the lost ones were at, first."""
        lost = list(self.flying.values())
        self.flying.clear()
        self.losses.update(point.id for point in lost)
        hopeless = [point for point in lost if self.losses[point.id] >= _TRIES]
        if self.workers is None or hopeless:
            raise self._fatal(hopeless or lost)
        self.workers.stop(self.executor, now=True)
        todo.extendleft(reversed(lost))
        self.executor = self.workers.start(self.traces)

    def _fatal(self, points: list[Point]) -> CoopsimError:
        s = points[0].setting if points else None
        where = f" at a replay such as {s.policy} on {s.trace_file} in {points[0].budget}" if s else ""
        often = "" if self.workers is None else " again and again"
        return CoopsimError(f"a worker was lost{often}{where}; what is done is kept, start it again to go on")

    def leave(self, *, now: bool) -> None:
        """Give the workers back; those of the caller's executor go on with nothing more."""
        for future in self.flying:
            future.cancel()
        if self.workers is not None:
            self.workers.stop(self.executor, now=now)
