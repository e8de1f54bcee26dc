"""The watcher: compiled code that follows a plan's tape, and calls Python only where the plan has something to do."""

from coopsim.live.watcher.library import Table, Watcher, find

__all__ = ["Table", "Watcher", "find"]
