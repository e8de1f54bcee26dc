"""Whether plans may offload, how much, and why not; and the host's memory that is reserved for it."""

from coopsim.base.text import human
from coopsim.live.host import hosting
from coopsim.live.host.area import HostArea
from coopsim.live.host.hosting import Hosting
from coopsim.live.plan import Plan
from coopsim.simulate.policies import Policy


class Offloading:
    """What a session may use of the host. area: where what plans offload lies.

    hosting: None: plans do not offload. memory_bytes: for all copies, those of steps without a plan included; None: no
    limit.
    """

    def __init__(self) -> None:
        self.hosting: Hosting | None = None
        self.memory_bytes: int | None = None
        self.area = HostArea("cpu")
        self._why_not = ""
        self._latest: Plan | None = None  # plan that was adopted

    def allow(self, asked: Hosting | None, why_not: str, policy: Policy | str) -> None:
        """Let plans offload, unless `why_not` says why not. CoopsimError if the policy makes no plans."""
        if asked is not None:
            hosting.check(policy)
        self.hosting, self._why_not = None if why_not else asked, why_not

    def run_on(self, device_type: str) -> None:
        """Copy from and to devices of this type, "cuda" or "cpu", from now on."""
        self.area = HostArea(device_type)

    @property
    def most_spilled(self) -> int | None:
        """Bytes that a step without a plan may have on the host; None: no limit."""
        return None if self.memory_bytes is None else max(self.memory_bytes - self.area.nbytes, 0)

    def reserve(self, plan: Plan) -> bool:
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

    def adopt(self, plan: Plan) -> None:
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
