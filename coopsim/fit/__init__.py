"""Find what to change in a script so that it fits a card: lines that were tried on the phantom GPU and work.

A remedy (remedy.py) proposes what to change for a case, request by request (proposals.py, remedies/); the
search runs it (searching/), with edits of the user's files (editing/), and prints what it has found (verdict.py,
rows.py). What runs within the script's processes is in inside/.
"""

from coopsim.fit.api import apply, fit
from coopsim.fit.remedy import Remedy
from coopsim.fit.searching.search import Search
from coopsim.fit.verdict import Fit

__all__ = ["Fit", "Remedy", "Search", "apply", "fit"]
