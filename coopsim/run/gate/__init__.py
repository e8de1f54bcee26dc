"""A gate for the memory of training scripts, by a limit or a committed baseline. It needs no GPU.

`check` runs a script on the phantom GPU and says whether it passes; `coopsim phantom run --max-memory` and
`--baseline`, and the pytest plugin (gate/plugin.py), call it.
"""

from coopsim.run.gate.baseline import Baseline, BaselinePeaks
from coopsim.run.gate.check import Verdict, check

__all__ = ["Baseline", "BaselinePeaks", "Verdict", "check"]
