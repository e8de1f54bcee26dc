"""The host: what plans may use of its memory, and what a step takes of it and of the GPU. Knows no torch.

The host issues the ops that the GPU runs. A step takes as long as the slower of both, and longer where the GPU waits
for the host in one part of it and is behind in another. The GPU's time is the cost of the ops in the trace, the host's
a model's (docs/live-internals.md). `timed` says what an op costs, from events around it on a card.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from coopsim.base.text import human
from coopsim.base.types import Action, CoopsimError
from coopsim.cards import link as links
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import Policy
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

PLAIN_NS = 18_300  #: of an op that PyTorch dispatches, views included
FOLLOWED_NS = 3_600  #: more, where the op is followed by a plan
AGAIN_NS = 47_000  #: of an op that is run again, and of the evictions that make that necessary

#: Of a copy to the host or back, where the link's was not measured: 62 us of processor time per copy on the machine of
#: benchmarks/live_host.py, by steps with 64 copies and without any (95 us more per copy, less 1.5 us per op that a plan
#: with copies watches), times the 1.63 that the card's host takes of that machine's. No card has run it.
COPY_NS = 100_000
COLD = 3.3  #: what a copy takes within a step, of what it takes right after others (Link.host_ns): 62 of 19 us there

_RUNS = (int(Action.COMPUTE), int(Action.RECOMPUTE))
_COPIES = (int(Action.OFFLOAD), int(Action.FETCH))


@dataclass(frozen=True)
class StepTime:
    """Times of a step in ns, on the GPU and on the host: as it is (`plain`), and by a plan (`planned`).

    plain_wait, planned_wait: what a step takes longer than the slower of both, if both begin it at rest, as when the
    program reads its loss in each.
    """

    plain_gpu: int
    plain_host: int
    planned_gpu: int
    planned_host: int
    plain_wait: int = 0
    planned_wait: int = 0

    @property
    def plain(self) -> int:
        """The time of a step as it is."""
        return max(self.plain_gpu, self.plain_host) + self.plain_wait

    @property
    def planned(self) -> int:
        """The time of a step by the plan."""
        return max(self.planned_gpu, self.planned_host) + self.planned_wait

    @property
    def overhead(self) -> float:
        """The time of a step by the plan, divided by that of a step as it is: 1.1 is 10 % more."""
        return self.planned / self.plain if self.plain else 1.0

    @property
    def gpu_overhead(self) -> float:
        """The same of the GPU alone."""
        return self.planned_gpu / self.plain_gpu if self.plain_gpu else 1.0

    def row(self) -> dict[str, int]:
        """The times, for JSON."""
        parts = ("plain_gpu", "plain_host", "planned_gpu", "planned_host")
        return {"plain": self.plain, "planned": self.planned} | {name: getattr(self, name) for name in parts}


def step_time(trace: Trace, schedule: Schedule, ops: int) -> StepTime:
    """Predict the times of a step by a schedule that runs to its end, with the model's of the host.

    ops: that the step dispatches to a GPU; 0: the host runs them, which is all that is counted.
    """
    gpu = int(trace.cost_ns.sum())
    planned = round(gpu * (schedule.overhead or 1.0))
    if not ops or not len(trace.cost_ns):
        return StepTime(gpu, 0, planned, 0)
    per_op = ops / len(trace.cost_ns)  # views are spread over the others
    plain = np.full(len(trace.cost_ns), per_op * PLAIN_NS)
    action = schedule.action
    host = (action == Action.COMPUTE) * per_op * (PLAIN_NS + FOLLOWED_NS)
    host += (action == Action.RECOMPUTE) * AGAIN_NS + np.isin(action, _COPIES) * _copy_ns(schedule)
    runs = np.isin(action, _RUNS)
    on_gpu = np.where(runs, trace.cost_ns[np.where(runs, schedule.op, 0)], 0)
    hosts = round(plain.sum()), round(host.sum())
    return StepTime(gpu, hosts[0], planned, hosts[1], _wait(plain, trace.cost_ns), _wait(host, on_gpu))


def _copy_ns(schedule: Schedule) -> float:
    """What a copy takes the host: as measured with the link, else by the model."""
    measured = schedule.header.get("link_host_ns")
    return COPY_NS if measured is None else COLD * float(measured)


def _wait(host: Any, gpu: Any) -> int:
    """What both take together, from rest, more than the slower of them: the host issues row by row, the GPU follows."""
    together = (host.cumsum() + gpu[::-1].cumsum()[::-1]).max()
    return round(float(together - max(host.sum(), gpu.sum())))


def timed(
    card: str, price: Mapping[int, int], entries: Mapping[int, Any], read: Mapping[int, int]
) -> tuple[dict[int, int], str]:
    """Costs of ops in ns, and one line for the trace's header that says what they rest on. Keys are numbers of ops.

    A cost is what was read of the op; else the median of what was read of the same op on the same sizes; else its
    price.
    """
    like: dict[int, Hashable] = {number: (entry.func, *entry.shapes[:2]) for number, entry in entries.items()}
    alike: dict[Hashable, list[int]] = {}
    for number in like.keys() & read.keys():
        alike.setdefault(like[number], []).append(read[number])
    middle = {key: round(median(times)) for key, times in alike.items()}
    costs = {number: read.get(number, middle.get(like.get(number), ns)) for number, ns in price.items()}
    share = f"{len(like.keys() & read.keys())} of {len(like)} ops"
    return costs, f"measured on {card}: CUDA events around {share} of one step, after a sleep; the rest by prices"


@dataclass(frozen=True)
class Hosting:
    """Values may be copied to the host and fetched. CoopsimError for a link that is not known.

    link: a name of `coopsim list links`; "": that of the card for which steps are recorded. memory_bytes: for all
    copies together; None: no limit.
    """

    link: str = ""
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        links.check(self.link, None)

    @property
    def options(self) -> ReplayOptions:
        """Options of the replay of one step."""
        return ReplayOptions(steps=1, link=self.link, host_memory=self.memory_bytes)


def check(policy: Policy | str) -> None:
    """Raise CoopsimError for a policy that makes no plans: copies on demand save no time."""
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if not policy.plans:
        raise CoopsimError(f"policy {policy.name} makes no plans, and only plans offload: take foresight-offline")


class Offloading:
    """What a session may use of the host. area: where what plans offload lies.

    hosting: None: plans do not offload, and `why_not` says why if one was asked to. memory_bytes: for all copies, those
    of steps without a plan included; None: no limit.
    """

    def __init__(self, hosting: Hosting | None = None, why_not: str = "", memory_bytes: int | None = None) -> None:
        self.hosting, self._why_not, self.memory_bytes = None if why_not else hosting, why_not, memory_bytes
        self.run_on("cpu")

    def run_on(self, device_type: str) -> None:
        """Copy from and to devices of this type, "cuda" or "cpu", from now on."""
        from coopsim.live.copies import HostArea

        self.area = HostArea(device_type)

    @property
    def most_spilled(self) -> int | None:
        """Bytes that a step without a plan may have on the host; None: no limit."""
        return None if self.memory_bytes is None else max(self.memory_bytes - self.area.nbytes, 0)

    def reserve(self, nbytes: int) -> bool:
        """Reserve the memory that a plan copies to. If that cannot be, no later plan may offload: False."""
        if not nbytes or self.hosting is None:
            return not nbytes
        most = self.hosting.memory_bytes
        if most is not None and nbytes > most:
            why = f"the copies take {human(nbytes)} as they lie on the host, of {human(most)}"
        else:
            why = self.area.reserve(nbytes)
        if why:
            self.hosting, self._why_not = None, why
        return not why

    def why_not(self, time: StepTime | None, host_bytes: int) -> str:
        """Why a plan does not offload, although plans may; "" if it does. time: of its steps; None: there is none."""
        if self.hosting is None or time is None:
            return self._why_not
        recomputes = time.planned_gpu > time.plain_gpu
        dearer = "recomputing alone is predicted to cost no more" if recomputes else "nothing is evicted"
        return "" if host_bytes else dearer
