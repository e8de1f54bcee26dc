"""Run unmodified scripts on the phantom GPU: find their memory use and the smallest card, and record traces.

The script runs in processes of its own (running/). Each of them loads sitecustomize.py at its start, which calls
running/inside.py; that waits until the script imports torch, watches it (watching/), and writes a report when the
process ends (process.py). A task (task.py) tells a process what else to do, and a plugin (running/plugin.py) is code of
another package that runs in it. A rank is one process of a job on many cards (ranks/). report.py is the report of a
run, words.py says it in words; smallest.py and largest.py search over many runs.
"""

from coopsim.script.process import Held, OutOfMemory
from coopsim.script.report import Bound, Report
from coopsim.script.running.run import plugin_reports, record, run, with_other_bound
from coopsim.script.script import Script
from coopsim.script.smallest import fit

__all__ = [
    "Bound",
    "Held",
    "OutOfMemory",
    "Report",
    "Script",
    "fit",
    "plugin_reports",
    "record",
    "run",
    "with_other_bound",
]
