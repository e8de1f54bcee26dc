"""With which choices a step is tried: one that runs out of memory before it has updated anything begins anew.

Which budgets a policy fits is chance where memory is short: one value in the way decides. So other choices often do.
"""

from dataclasses import replace

from coopsim.policies import Policy
from coopsim.policies.coop import POLICY as COOP
from coopsim.types import Placement, Search


def for_first_step(policy: Policy) -> list[Policy]:
    """As itself, as Coop, and with other windows and another placement."""
    coop = replace(
        policy,
        cost=COOP.cost,
        divisor=COOP.divisor,
        recency=COOP.recency,
        search=COOP.search,
        placement=COOP.placement,
    )
    return [policy, coop, *for_later_steps(policy)[1:]]


def for_later_steps(policy: Policy) -> list[Policy]:
    """As it is, and with other windows, another placement, or both; the cost that it goes by is the same."""
    search = Search.WINDOW if policy.search != Search.WINDOW else Search.WINDOW_THRIFTY
    placement = Placement.TWO_ENDED if policy.placement != Placement.TWO_ENDED else Placement.PREFERRED
    return [
        policy,
        replace(policy, search=search),
        replace(policy, placement=placement),
        replace(policy, search=search, placement=placement),
    ]
