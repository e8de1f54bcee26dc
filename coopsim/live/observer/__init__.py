"""The observer: compiled code that follows a plan's tape, and calls Python only where the plan has something to do."""

from coopsim.live.observer.library import Observer, Table, find

__all__ = ["Observer", "Table", "find"]
