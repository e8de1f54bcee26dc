"""Inside a script's processes: nothing until torch is imported, then watch; at the end, leave a report.

Started by site/sitecustomize.py. Nothing heavy is imported before the script itself imports torch.
"""

import atexit
import importlib.abc
import importlib.machinery
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any

from coopsim.script import places
from coopsim.script.task import FOLDER, Task


def install() -> None:
    """Wait for torch. Does nothing in a process that was given no task."""
    if FOLDER not in os.environ:
        return
    session = _Session(*Task.here())
    sys.meta_path.insert(0, _AfterImport("torch", session.begin))
    sys.excepthook = session.uncaught
    os.register_at_fork(after_in_child=session.forget)
    atexit.register(session.end)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once, when a module has been imported."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name, self._call = name, call

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute, call = spec.loader.exec_module, self._call

        def exec_module(module: ModuleType) -> None:
            execute(module)
            call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _Session:
    """One process of the script."""

    def __init__(self, task: Task, folder: str) -> None:
        self._task, self._folder = task, folder
        self._watch: Any = None
        self._error: dict[str, Any] | None = None

    def begin(self) -> None:
        """torch is there."""
        from coopsim.script.watch import Watch

        self._watch = Watch(self._task)

    def uncaught(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        """In place of sys.excepthook: remember what ended the script."""
        first = (str(error).strip().splitlines() or [""])[0]
        said = f"{kind.__name__}: {first}" if first else kind.__name__
        first_failure = getattr(error, "get_first_failure", None)  # torchrun's ChildFailedError
        if first_failure is not None:
            rank, failure = first_failure()
            said = f"rank {rank} ended with exit code {failure.exitcode}"
        self._error = {"place": "" if first_failure else places.of_error(error), "error": said}
        self._error["launcher"] = first_failure is not None
        if self._task.traceback:
            traceback.print_exception(kind, error, where)

    def forget(self) -> None:
        """This is a fork of the process (a worker that loads data): it leaves no report."""
        atexit.unregister(self.end)
        if self._watch is not None:
            self._watch.forget()

    def end(self) -> None:
        """The script has ended."""
        found: dict[str, Any] = {"error": self._error}
        if self._watch is not None:
            try:
                found |= self._watch.end()
            except Exception as failure:
                traceback.print_exc()
                found["failure"] = f"{type(failure).__name__}: {failure}"
        part = os.path.join(self._folder, f".{os.getpid()}")
        with open(part, "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.rename(part, os.path.join(self._folder, f"{os.getpid()}.json"))
