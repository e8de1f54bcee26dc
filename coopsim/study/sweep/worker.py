"""What happens where a replay runs: in this process, in another one, or on another machine."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import Policy
from coopsim.study.sweep import own
from coopsim.study.sweep.journal import Row
from coopsim.trace import Trace

_held: dict[str, Trace] = {}
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class SweepJob:
    """One replay, as sent to a worker. `core` names the version that it is to be run by."""

    trace_id: str
    policy: str | Policy | bytes  #: its name, or itself, which other processes get packed
    allocator: Allocator
    budget_bytes: int
    options: ReplayOptions
    core: str
    fingerprint: str = ""


def core() -> str:
    """This version of coopsim and of its kernels."""
    from coopsim.simulate.kernel import sources
    from coopsim.version import __version__

    return f"{__version__}, kernels {sources.of_replays()}"


def hold(traces: Mapping[str, Trace]) -> None:
    """Keep traces in this process, by GridSetting.trace_id."""
    for name, trace in traces.items():
        _held.setdefault(name, trace)


def let_go(names: list[str]) -> None:
    """Forget traces."""
    for name in names:
        _held.pop(name, None)


def perform(job: SweepJob, trace: Trace | None = None) -> Row | str | None:
    """The row of a replay; None if this process lacks the trace, which is then to be sent along.

    ELSEWHERE if the policy is not here, or is another one: the process that sweeps has to replay it. CoopsimError for a
    replay that makes no sense, or a worker with another version of coopsim.
    """
    if job.core != core():
        raise CoopsimError(f"the worker on {socket.gethostname()} has coopsim {core()}, not {job.core}")
    if trace is not None:
        hold({job.trace_id: trace})
    if job.trace_id not in _held:
        return None
    from coopsim.simulate.planning.request import PlanRequest
    from coopsim.simulate.replay.api import figures

    policy = own.unpacked(job.policy, job.fingerprint)
    if policy is None:
        return ELSEWHERE
    with own.as_found(policy, job.policy):
        row = figures(PlanRequest(_held[job.trace_id], policy, job.budget_bytes, job.allocator, job.options))
    row["failure"] = json.dumps(row["failure"]) if row["failure"] else None
    return row
