"""Foresight for steps that are known before they run, as from a trace recorded on the phantom GPU.

The first goes by plan, too, and so do steps that differ: one plan for all that the trace has. All else is Foresight's
(docs/policies.md).
"""

from dataclasses import replace

from coopsim.base.types import Planning
from coopsim.simulate.policies.foresight import POLICY as FORESIGHT

POLICY = replace(
    FORESIGHT,
    name="foresight-offline",
    summary="foresight for steps that are known before they run: the first, and steps that differ, follow a plan, too",
    planning=Planning.OFFLINE,
)
