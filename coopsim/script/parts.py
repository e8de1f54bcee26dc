"""The parts of a process's report, each made on its own: one that fails loses nothing of the others."""

import traceback
from collections.abc import Callable
from typing import Any


class Parts:
    """Collects what was measured. `found`: the parts by key; `lost`: those that failed, by name, with the error."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.lost: dict[str, str] = {}

    def add(self, key: str, make: Callable[[], Any], otherwise: Any = None) -> None:
        """Make the part `key`; if that raises, it is `otherwise`, and lost."""
        self.found[key] = otherwise
        self.do(key, lambda: self.found.update({key: make()}))

    def do(self, name: str, action: Callable[[], Any]) -> None:
        """Do what leaves no entry of its own, such as writing a file; if it raises, `name` is lost."""
        try:
            action()
        except Exception as error:
            traceback.print_exc()
            said = (str(error).strip().splitlines() or [""])[0]
            self.lost[name] = f"{type(error).__name__}: {said}"
