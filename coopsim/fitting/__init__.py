"""Find what to change in a script so that it fits a card: lines that were tried on the phantom GPU and work.

The kinds of remedy (remedies/) have remedies (remedy.py) tried on a bench (bench.py), by runs of the script
(searching/) with edits of the user's files (editing/) or options of the program (options.py). What was found is printed
(verdict.py, rows.py). What runs within the script's processes is in inside/. advise/ explains why memory ran out.
"""

import importlib

TYPE_CHECKING = False  # as checkers know it, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from coopsim.fitting.api import apply as apply
    from coopsim.fitting.api import fit as fit
    from coopsim.fitting.remedy import Remedy as Remedy
    from coopsim.fitting.searching.search import Search as Search
    from coopsim.fitting.verdict import Fit as Fit

#: The module of each public name. None is imported before it is used.
_WHERE = {
    "Fit": "verdict",
    "Remedy": "remedy",
    "Search": "searching.search",
    "apply": "api",
    "fit": "api",
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> "Any":
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
