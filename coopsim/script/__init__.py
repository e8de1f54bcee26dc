"""Unmodified scripts on the phantom GPU: what they take of a card, the smallest that they train on, a trace of them.

The script runs in processes of its own. site/sitecustomize.py is found by each of them at its start and calls
inside.py, which waits until the script imports torch, watches (watch.py), and leaves a report when it ends.
"""

from coopsim.script.report import Held, OutOfMemory, Report
from coopsim.script.run import guests, record, run
from coopsim.script.script import Script
from coopsim.script.smallest import fit

__all__ = ["Held", "OutOfMemory", "Report", "Script", "fit", "guests", "record", "run"]
