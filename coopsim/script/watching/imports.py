"""Run code after a program has imported a module."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def now_or_after(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module, at once if it has been imported, or else as soon as it is."""
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, AfterImport(name, call))


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once, with the module, when the module of that name has just been imported.

    It is put into sys.meta_path, and removes itself from there. A program that only looks for the module
    (importlib.util.find_spec), as transformers does, does not cause the call.
    """

    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name, self._call = name, call
        self._looking = False

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's own spec, whose loader is made to call the function; None for any other module."""
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._call(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
