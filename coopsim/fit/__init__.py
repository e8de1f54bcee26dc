"""From "out of memory" to lines that were tried and work: what to change of a script so that it fits a card."""

from coopsim.fit.api import fit
from coopsim.fit.apply import apply
from coopsim.fit.remedy import Remedy
from coopsim.fit.search import Search
from coopsim.fit.verdict import Fit

__all__ = ["Fit", "Remedy", "Search", "apply", "fit"]
