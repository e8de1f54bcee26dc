"""What happens where a replay runs: in this process, in another one, or on another machine."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from coopsim import policies
from coopsim.allocators import Allocator
from coopsim.options import ReplayOptions
from coopsim.policies._foreign import fingerprint
from coopsim.sweep.journal import Row
from coopsim.trace import Trace
from coopsim.types import CoopsimError

_held: dict[str, Trace] = {}


@dataclass(frozen=True)
class SweepJob:
    """One replay, as sent to a worker. `core` names the version that it is to be run by."""

    trace_id: str
    policy: str
    allocator: Allocator
    budget_bytes: int
    options: ReplayOptions
    core: str


def core() -> str:
    """This version of coopsim and of its kernels."""
    from coopsim.kernel import sources
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


def perform(job: SweepJob, trace: Trace | None = None) -> Row | None:
    """The row of a replay; None if this process lacks the trace, which is then to be sent along.

    CoopsimError for a replay that makes no sense, or a worker with another version of coopsim.
    """
    if job.core != core():
        raise CoopsimError(f"the worker on {socket.gethostname()} has coopsim {core()}, not {job.core}")
    if trace is not None:
        hold({job.trace_id: trace})
    if job.trace_id not in _held:
        return None
    from coopsim.replay import measure

    policy = _policy(job.policy, fingerprint(job.policy))
    row = measure(_held[job.trace_id], policy, job.budget_bytes, job.allocator, job.options)
    row["failure"] = json.dumps(row["failure"]) if row["failure"] else None
    return row


@lru_cache(maxsize=256)
def _policy(spec: str, _fingerprint: str) -> policies.Policy:
    """Found once a process: looking through what is installed takes as long as a small replay."""
    return policies.find(spec)
