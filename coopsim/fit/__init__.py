"""Find what to change in a script so that it fits a card: lines that were tried on the phantom GPU and work."""

from coopsim.fit.api import fit
from coopsim.fit.apply import apply
from coopsim.fit.remedy import Remedy
from coopsim.fit.search import Search
from coopsim.fit.verdict import Fit

__all__ = ["Fit", "Remedy", "Search", "apply", "fit"]
