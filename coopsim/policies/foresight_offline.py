"""Foresight for a step that is known before it runs, as from a trace recorded on the phantom GPU.

The first step goes by plan, too. All else is Foresight's (docs/policies-ours.md).
"""

from dataclasses import replace

from coopsim.policies.foresight import POLICY as FORESIGHT
from coopsim.types import Planning

POLICY = replace(
    FORESIGHT,
    name="foresight-offline",
    summary="foresight where the step is known before it runs: the first goes by plan, too",
    planning=Planning.OFFLINE,
)
