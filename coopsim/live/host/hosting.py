"""What plans may use of the host's memory, and why they do not offload. Knows no torch, until a session begins."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coopsim.base.text import human
from coopsim.base.types import CoopsimError, Lose
from coopsim.cards import link as links
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import Policy

if TYPE_CHECKING:
    from coopsim.live.plan import Plan


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


def copying(policy: Policy) -> Policy:
    """The policy, as one that may offload as well as recompute."""
    return replace(policy, lose=Lose.EITHER)


def check(policy: Policy | str) -> None:
    """Raise CoopsimError for a policy that makes no plans: copies on demand save no time."""
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if not policy.plans:
        raise CoopsimError(f"policy {policy.name} makes no plans, and only plans offload: take foresight-offline")


class Offloading:
    """What a session may use of the host. area: where what plans offload lies.

    hosting: None: plans do not offload. memory_bytes: for all copies, those of steps without a plan included; None: no
    limit.
    """

    def __init__(self) -> None:
        self.hosting: Hosting | None = None
        self.memory_bytes: int | None = None
        self.run_on("cpu")
        self._why_not = ""
        self._latest: Plan | None = None  # plan that was adopted

    def allow(self, asked: Hosting | None, why_not: str, policy: Policy | str) -> None:
        """Let plans offload, unless `why_not` says why not. CoopsimError if the policy makes no plans."""
        if asked is not None:
            check(policy)
        self.hosting, self._why_not = None if why_not else asked, why_not

    def run_on(self, device_type: str) -> None:
        """Copy from and to devices of this type, "cuda" or "cpu", from now on."""
        from coopsim.live.host.area import HostArea

        self.area = HostArea(device_type)

    @property
    def most_spilled(self) -> int | None:
        """Bytes that a step without a plan may have on the host; None: no limit."""
        return None if self.memory_bytes is None else max(self.memory_bytes - self.area.nbytes, 0)

    def reserve(self, plan: "Plan") -> bool:
        """Reserve the memory that a plan copies to. If that cannot be, no later plan may offload: False."""
        nbytes, most = plan.host_bytes, self.hosting.memory_bytes if self.hosting is not None else 0
        if not nbytes:
            return True
        if self.hosting is None:
            return not self._why_not
        if most is not None and nbytes > most:
            why = f"the copies take {human(nbytes)} as they lie on the host, of {human(most)}"
        else:
            why = self.area.reserve(nbytes)
        if why:
            self.hosting, self._why_not = None, why
        return not why

    def adopt(self, plan: "Plan") -> None:
        """Note that steps of some signature go by this plan from now on."""
        self._latest = plan

    @property
    def why_not(self) -> str:
        """Why the latest plan does not offload, although plans may; "" if it does, and before there is one."""
        plan = self._latest
        if self.hosting is None or plan is None or plan.time is None:
            return self._why_not
        recomputes = plan.time.planned_gpu > plan.time.plain_gpu
        dearer = "recomputing alone is predicted to cost no more" if recomputes else "nothing is evicted"
        return "" if plan.host_bytes else dearer
