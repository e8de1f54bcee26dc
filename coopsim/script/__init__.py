"""Run unmodified scripts on the phantom GPU: find their memory use and the smallest card, and record traces.

The script runs in processes of its own (running/). Each of them loads sitecustomize.py at its start, which calls
running/inside.py; that waits until the script imports torch, watches it (watching/), and writes a report when the
process ends (process.py). A task (task.py) tells a process what else to do, and a plugin (running/plugin.py) is code of
another package that runs in it. A rank is one process of a job on many cards (ranks/). report.py is the report of a
run, words.py says it in words; smallest.py and largest.py search over many runs.
"""

import importlib

TYPE_CHECKING = False  # as checkers know it, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from coopsim.script.process import Held as Held
    from coopsim.script.process import OutOfMemory as OutOfMemory
    from coopsim.script.report import Bound as Bound
    from coopsim.script.report import Report as Report
    from coopsim.script.running.run import plugin_reports as plugin_reports
    from coopsim.script.running.run import record as record
    from coopsim.script.running.run import run as run
    from coopsim.script.running.run import with_other_bound as with_other_bound
    from coopsim.script.script import Script as Script
    from coopsim.script.smallest import fit as fit

#: The module of each public name. None is imported before it is used: a script's processes, which begin with running/
#: inside.py, need none of these.
_WHERE = {
    "Bound": "report",
    "Held": "process",
    "OutOfMemory": "process",
    "Report": "report",
    "Script": "script",
    "fit": "smallest",
    "plugin_reports": "running.run",
    "record": "running.run",
    "run": "running.run",
    "with_other_bound": "running.run",
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> "Any":
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
