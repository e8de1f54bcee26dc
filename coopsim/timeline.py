"""What a schedule takes in wall-clock time: a host thread that dispatches and searches, a launch queue, one GPU stream.

A replay's clock counts the cost of ops alone. In a training run the host also pays: for each op that it dispatches,
each piece that it allocates or frees, each piece that a search visits. It runs ahead of the GPU through a bounded
launch queue, so part of that time is hidden behind the GPU's work. How much of the search is hidden is what `simulate`
finds. docs/timeline.md has the model.
"""

import tomllib
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopsim.errors import unknown
from coopsim.schedule import Schedule
from coopsim.trace.table import Trace
from coopsim.types import Action, CoopsimError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Params:
    """Prices of the host's work, in ns, and the shape of the queue. `load_params` has the defaults and their sources.

    dispatch_ns per op; alloc_ns per allocation; free_ns per free or release; search_ns_per_visit per piece that a
    search looks at and evict_ns per eviction, which together are the search; queue_capacity: launched ops that may
    wait for the GPU; sync_steps: whether the host waits for the GPU after each step. CoopsimError if out of range.
    """

    dispatch_ns: int
    alloc_ns: int
    free_ns: int
    search_ns_per_visit: float
    evict_ns: int
    queue_capacity: int
    sync_steps: bool = False

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 1 if name == "queue_capacity" else 0
            kinds, word = _KINDS.get(name, ((int,), "an integer"))
            if type(value) not in kinds:
                raise CoopsimError(f"timeline parameter {name}: {value!r} is not {word}")
            if not least <= value < float("inf"):
                raise CoopsimError(f"timeline parameter {name} must be at least {least} and finite, not {value}")


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "search_ns_per_visit": ((int, float), "a number"),
    "sync_steps": ((bool,), "true or false"),
}


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each op ran, a row an op in the order of its launch; times in ns from the start of the first step.

    `op` indexes the trace's ops, `step` counts training steps, `recompute` marks ops run again; the host put the op
    into the queue at `launched_ns`, the GPU ran it from `start_ns` to `end_ns`. `step_ns`, a number a step, is the
    time from the end of one step's last op to the end of the next one's. `host_work_ns` contains `search_ns`;
    `host_blocked_ns` is what the host waited for a place in the queue or for a sync. `total_without_search_ns` is the
    total of the same run with searches that cost nothing.
    """

    op: Ints
    step: Ints
    recompute: NDArray[np.bool_]
    launched_ns: Ints
    start_ns: Ints
    end_ns: Ints
    step_ns: Ints
    total_ns: int
    gpu_busy_ns: int
    host_work_ns: int
    host_blocked_ns: int
    search_ns: int
    total_without_search_ns: int
    params: Params

    @property
    def gpu_idle_ns(self) -> int:
        """Time in which the GPU ran nothing."""
        return self.total_ns - self.gpu_busy_ns

    @property
    def gpu_waited_ns(self) -> int:
        """The part of the GPU's idle time that it waited for the host to launch a next op."""
        return (int(self.end_ns[-1]) if len(self.end_ns) else 0) - self.gpu_busy_ns

    @property
    def hidden_fraction(self) -> float | None:
        """The part of the search time that the GPU hides: 1 - growth of the total / search time. None: no search."""
        exposed = self.total_ns - self.total_without_search_ns
        return 1.0 - exposed / self.search_ns if self.search_ns else None


@cache
def _shipped() -> dict[str, Any]:
    text = (Path(__file__).parent / "timeline_params.toml").read_text(encoding="utf-8")
    return {name: entry["value"] for name, entry in tomllib.loads(text).items()}


def load_params(path: str | Path | None = None) -> Params:
    """The shipped parameters, those in the TOML file at `path` in their place. CoopsimError if that is no such file."""
    try:
        entries = tomllib.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError) as e:
        raise CoopsimError(f"{path}: not a file of timeline parameters ({e})") from None
    for name, entry in entries.items():
        if name not in _shipped():
            raise unknown("timeline parameter", name, _shipped(), hint=f" (in {path})")
        if not isinstance(entry, dict) or "value" not in entry:
            raise CoopsimError(f"{path}: timeline parameter {name} needs a table with `value` and `source`")
    return Params(**(_shipped() | {name: entry["value"] for name, entry in entries.items()}))


def measured(schedule: Schedule, params: Params) -> Params:
    """`params` with the search at the price that this replay measured: wall ns / visits, evictions included.

    Unchanged if nothing was searched or measured.
    """
    search_ns, visits = schedule.header.get("search_ns"), schedule.header.get("search_visits")
    return replace(params, search_ns_per_visit=search_ns / visits, evict_ns=0) if search_ns and visits else params


def simulate(schedule: Schedule, trace: Trace, params: Params | None = None) -> Timeline:
    """Run the schedule's actions on the simulated host and GPU.

    trace: the one that the schedule was made from (CoopsimError if not). params: `load_params()` if left out. All ops
    go to one stream, in order. A replay that did not end well is simulated as far as it came.
    """
    if schedule.header.get("trace", trace.content_hash) != trace.content_hash:
        raise CoopsimError(f"the schedule was not made from this trace ({trace.label}): their content hashes differ")
    params = params or load_params()
    runs = np.isin(schedule.action, (Action.COMPUTE, Action.RECOMPUTE))
    op, step = schedule.op[runs], schedule.step[runs]
    cost = trace.cost_ns[op]
    ends_step = np.append(np.diff(step) > 0, np.ones(min(len(step), 1), np.bool_))
    waits = ends_step & params.sync_steps
    search, other = _host_work(schedule, runs, params)
    run = _run(search + other, cost, waits, params.queue_capacity)
    bare = _run(other, cost, waits, params.queue_capacity) if search.any() else run
    return Timeline(
        op=op,
        step=step,
        recompute=schedule.action[runs] == Action.RECOMPUTE,
        launched_ns=run.launched,
        start_ns=run.start,
        end_ns=run.end,
        step_ns=np.diff(run.end[ends_step], prepend=0),
        total_ns=run.total_ns,
        gpu_busy_ns=int(cost.sum()),
        host_work_ns=int((search + other).sum()),
        host_blocked_ns=run.host_end_ns - int((search + other).sum()),
        search_ns=int(search.sum()),
        total_without_search_ns=bare.total_ns,
        params=params,
    )


def summary(timeline: Timeline) -> dict[str, int | float | None]:
    """The figures of a timeline, for JSON: counts, ns, and ratios; None where there was no search or no step."""
    t = timeline
    return {
        "ops": len(t.op),
        "recomputes": int(t.recompute.sum()),
        "steps": len(t.step_ns),
        "step_ns": float(t.step_ns.mean()) if len(t.step_ns) else None,
        "total_ns": t.total_ns,
        "gpu_busy_ns": t.gpu_busy_ns,
        "gpu_idle_ns": t.gpu_idle_ns,
        "gpu_waited_ns": t.gpu_waited_ns,
        "host_work_ns": t.host_work_ns,
        "host_blocked_ns": t.host_blocked_ns,
        "search_ns": t.search_ns,
        "exposed_search_ns": t.total_ns - t.total_without_search_ns,
        "hidden_fraction": t.hidden_fraction,
    }


def _host_work(schedule: Schedule, runs: NDArray[np.bool_], params: Params) -> tuple[Ints, Ints]:
    """What the host does before it launches each op, and after the last: (searching, everything else), in ns.

    Rows between two ops belong to the later one. Placing what is there before the first step is not part of any step.
    """
    action = schedule.action
    search = np.rint(schedule.visits * params.search_ns_per_visit).astype(np.int64)
    search += (action == Action.EVICT) * params.evict_ns
    other = runs * params.dispatch_ns + np.isin(action, (Action.FREE, Action.RELEASE)) * params.free_ns
    other += ((action == Action.ALLOC) & (schedule.op >= 0)) * params.alloc_ns
    launch: Ints = np.cumsum(runs) - runs  # of each row, the number of the op that it comes before
    n = int(runs.sum()) + 1
    sums = [np.zeros(n, np.int64), np.zeros(n, np.int64)]
    np.add.at(sums[0], launch, search)
    np.add.at(sums[1], launch, other)
    return sums[0], sums[1]


class _Run(NamedTuple):
    """One simulation: when each op was launched, started and ended, when the host was done, and all."""

    launched: Ints
    start: Ints
    end: Ints
    host_end_ns: int
    total_ns: int


def _run(host_work: Ints, cost: Ints, waits: NDArray[np.bool_], capacity: int) -> _Run:
    """The host works for host_work[i], then launches op i, and if that op `waits`, goes on when it has run."""
    import simpy

    n = len(cost)
    work, costs = host_work.tolist(), cost.tolist()
    launched, start, end = (np.zeros(n, np.int64) for _ in range(3))
    env = simpy.Environment()
    queue = simpy.Store(env, capacity)
    drained = {i: env.event() for i in np.flatnonzero(waits).tolist()}

    def host() -> Generator[simpy.Event, Any, int]:
        for i in range(n):
            yield env.timeout(work[i])
            yield queue.put(i)
            launched[i] = env.now
            if i in drained:
                yield drained[i]
        yield env.timeout(work[n])
        return int(env.now)

    def gpu() -> Generator[simpy.Event, Any, None]:
        for _ in range(n):
            i = yield queue.get()
            start[i] = env.now
            yield env.timeout(costs[i])
            end[i] = env.now
            if i in drained:
                drained[i].succeed()

    finished = env.process(host())
    env.process(gpu())
    host_end: Any = env.run(until=finished)
    env.run()  # what is still in the queue
    return _Run(launched, start, end, host_end, int(env.now))
