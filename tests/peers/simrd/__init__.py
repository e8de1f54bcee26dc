"""DTR's own simulator (simrd), reproduced decision for decision: an importer for its logs and a compiled replay."""

from tests.peers.simrd.api import POLICIES, baseline_peak_bytes, check_policy, measure_simrd, replay_simrd
from tests.peers.simrd.importer import import_log
from tests.peers.simrd.log import LogError

__all__ = [
    "POLICIES",
    "LogError",
    "baseline_peak_bytes",
    "check_policy",
    "import_log",
    "measure_simrd",
    "replay_simrd",
]
