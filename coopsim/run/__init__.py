"""Run unmodified scripts on the phantom GPU: find their memory use and the smallest card, and record traces.

The script runs in processes of its own (launch/). Each of them loads sitecustomize.py at its start, which calls
launch/inside.py; that waits until the script imports torch, watches it (probes/), and writes a report when the process
ends (process.py). A task (task.py) tells a process what else to do, and a plugin (launch/plugin.py) is code of another
package that runs in it. A rank is one process of a job on many cards (ranks/). report.py is the report of a run,
whose figures are each declared once (figure.py); search.py is the search over many runs, of which
smallest.py and largest.py are two. gate/ holds a run to a limit, longrun/ replays what some of its steps asked for
thousands of steps on.
"""

import importlib

TYPE_CHECKING = False  # as checkers know it, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from coopsim.run.launch.run import plugin_reports as plugin_reports
    from coopsim.run.launch.run import record as record
    from coopsim.run.launch.run import run as run
    from coopsim.run.launch.run import with_other_bound as with_other_bound
    from coopsim.run.records import Held as Held
    from coopsim.run.records import OutOfMemory as OutOfMemory
    from coopsim.run.report import Bound as Bound
    from coopsim.run.report import Report as Report
    from coopsim.run.script import Script as Script
    from coopsim.run.smallest import fit as fit

#: The module of each public name. None is imported before it is used: a script's processes, which begin with launch/
#: inside.py, need none of these.
_WHERE = {
    "Bound": "report",
    "Held": "records",
    "OutOfMemory": "records",
    "Report": "report",
    "Script": "script",
    "fit": "smallest",
    "plugin_reports": "launch.run",
    "record": "launch.run",
    "run": "launch.run",
    "with_other_bound": "launch.run",
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> "Any":
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
