"""Foresight: a plan, made from the step before, of what leaves memory when and of all addresses.

For training steps that repeat; the first goes as under Thrift. A step that runs out of memory begins anew with other
choices. While a step goes as planned nothing is searched for;
the first surprise (another request, an address that is not free) ends the plan until the next step, and Thrift goes
on. The planner is coopsim/simulate/planning; docs/policies.md says how it works.
"""

from dataclasses import replace

from coopsim.base.types import Planning
from coopsim.simulate.policies.thrift import POLICY as THRIFT

POLICY = replace(
    THRIFT,
    name="foresight",
    summary="steps that repeat follow a plan made from the step before; otherwise thrift",
    planning=Planning.REPEAT,
)
