"""The observer: compiled code that follows a plan, and calls Python only where a step differs from it."""

from coopsim.live.observer.library import COMPILING, Kept, Observer, State, find, load, stored
from coopsim.live.observer.table import Table

__all__ = ["COMPILING", "Kept", "Observer", "State", "Table", "find", "load", "stored"]
