"""DTR's own simulator (simrd), reproduced decision for decision: an importer for its logs and a compiled replay."""

from coopsim.simulate.simrd.api import POLICIES, baseline_peak_bytes, check_policy, measure_simrd, replay_simrd
from coopsim.simulate.simrd.importer import import_log
from coopsim.simulate.simrd.log import LogError

__all__ = [
    "POLICIES",
    "LogError",
    "baseline_peak_bytes",
    "check_policy",
    "import_log",
    "measure_simrd",
    "replay_simrd",
]
