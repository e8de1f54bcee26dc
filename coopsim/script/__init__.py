"""Run unmodified scripts on the phantom GPU: find their memory use and the smallest card, and record traces.

The script runs in processes of its own. Each of them loads site/sitecustomize.py at its start, which calls inside.py;
that waits until the script imports torch, watches it (watch.py), and writes a report when the process ends. A task
(task.py) tells a process what else to do, and a guest (guest.py) is code of another package that runs in it. A rank is
one process of a job on many cards (ranks/).
"""

from coopsim.script.bounds import with_other_bound
from coopsim.script.report import Bound, Held, OutOfMemory, Report
from coopsim.script.run import guests, record, run
from coopsim.script.script import Script
from coopsim.script.smallest import fit

__all__ = ["Bound", "Held", "OutOfMemory", "Report", "Script", "fit", "guests", "record", "run", "with_other_bound"]
