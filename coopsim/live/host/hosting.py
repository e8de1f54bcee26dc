"""What plans may use of the host's memory. Knows no torch."""

from dataclasses import dataclass, replace

from coopsim.base.types import CoopsimError, Lose
from coopsim.cards import link as links
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import Policy


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
