"""Run within a script's processes: wait until torch is imported, watch it, and write a report at the end.

Started by run/sitecustomize.py. Nothing slow is imported before the script itself imports torch.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import io
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from coopsim.record.observe.private import hooked
from coopsim.run.launch import plugin
from coopsim.run.probes import places, probe
from coopsim.run.probes.imports import after_import
from coopsim.run.process import ProcessReport
from coopsim.run.ranks import launcher
from coopsim.run.records import ScriptError
from coopsim.run.task import FOLDER, Task

if TYPE_CHECKING:
    from coopsim.run.launch.host_limit import HostLimit
    from coopsim.run.probes.watch import Watch

_PR_SET_PDEATHSIG = 1  #: of Linux's prctl


def install() -> None:
    """Wait for torch to be imported. Do nothing in a process without a task, and in Inductor's compile workers."""
    if FOLDER not in os.environ or any("compile_worker" in word for word in sys.orig_argv):
        return
    task, folder = Task.here()
    process = _Process(task, folder)
    if task.ranks:
        _end_with_parent()
        after_import(launcher.SPAWN, launcher.run_what_is_spawned)
    else:
        spawn = functools.partial(launcher.stop_before_spawn, folder=folder)
        after_import(launcher.SPAWN, spawn)
        stop = functools.partial(launcher.stop_before_workers, folder=folder)
        after_import(launcher.API, stop)
    after_import("torch", process.begin)
    after_import("torch._dynamo", process.dynamo)
    after_import("torch._inductor.runtime.triton_heuristics", process.kernels)
    sys.excepthook = process.uncaught
    threading.excepthook = functools.partial(process.uncaught_by_thread, threading.excepthook)
    after_import("multiprocessing.process", process.part)
    os.register_at_fork(after_in_child=process.forget)
    atexit.register(process.end)


def _end_with_parent() -> None:
    """End this process when its parent ends: ranks that wait for each other would never end by themselves."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _first_line(error: BaseException) -> str:
    """Return the line of an error that says what happened: the first, or the compiler's own after its command."""
    rows = str(error).strip().splitlines() or [""]
    building = re.match(r"Error (building|compiling) [^:]*(?=:)", rows[0])  # torch.utils.cpp_extension
    reason = next((row.strip() for row in rows[1:] if "error:" in row), "") if building else ""
    return f"{building.group()}: {reason}" if building and reason else rows[0]


def _of_child(error: BaseException) -> ScriptError | None:
    """Return the entry for the error of a process that mp.spawn started, which an error here wraps; None if none is."""
    if type(error).__name__ != "ProcessRaisedException":
        return None
    rows = str(error).rstrip().splitlines()
    lines = re.findall(r'^ *File "([^"]+)", line (\d+)', str(error), re.MULTILINE)
    own = [f"{os.path.basename(file)}:{line}" for file, line in lines if places.is_own(file)]
    return ScriptError(own[-1] if own else "", rows[-1])


def _passes_through(package: str, error: BaseException) -> bool:
    """Return whether the error's traceback has a frame of that package."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__", "").split(".")[0] == package for frame in frames)


def _end_soon() -> None:
    """Let Python end without its searches for reference cycles, which take a second where transformers is imported.

    Files that only a cycle holds would be written to their end by these: they are flushed here. Where a class of the
    script has a finalizer, nothing is left out, as a cycle may hold what is to be finalized.
    """
    found = gc.get_objects()
    if any(_is_of_script(getattr(type(one), "__del__", None)) for one in found):
        return
    for one in found:
        if type(one) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
            with contextlib.suppress(Exception):  # it is closed
                one.flush()
    gc.freeze()


def _is_of_script(method: Any) -> bool:
    code = getattr(method, "__code__", None)
    return code is not None and places.is_own(code.co_filename)


class _Process:
    """One process of the script."""

    def __init__(self, task: Task, folder: str) -> None:
        self._task, self._folder = task, folder
        self._watch: Watch | None = None
        self._plugin: plugin.Plugin | None = None
        self._error: ScriptError | None = None
        self._limit: HostLimit | None = None
        self._lock = threading.Lock()
        self._by_thread: tuple[ScriptError, int] | None = None  #: the error that ended a thread, and steps before it

    def begin(self, _torch: ModuleType) -> None:
        """Start watching and the plugin; called when torch has been imported."""
        if self._task.ranks:
            from coopsim.run.ranks import imagined

            imagined.install(self._task)

        if self._task.card:
            from coopsim.run.launch.host_limit import HostLimit

            self._limit = HostLimit(self._ended_by_limit)
        made = plugin.make(self._task.plugin, self._task.told) if self._task.plugin else None
        if self._task.card:
            from coopsim.run.probes.watch import Watch

            self._watch = Watch(self._task, self._folder)
        if made is not None:
            made.begin(self._watch)
            self._plugin = made  # only now: one that has not begun has no report

    def dynamo(self, _: ModuleType) -> None:
        """Watch torch.compile; called when torch._dynamo has been imported."""
        if self._watch is not None:
            self._watch.watch_dynamo()

    def kernels(self, _: ModuleType) -> None:
        """Watch Inductor's kernels; called when its launcher (triton_heuristics) has been imported."""
        if self._watch is not None:
            self._watch.watch_kernels()

    def uncaught(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        """Note the error that ends the script; replaces sys.excepthook."""
        self._error = self._told(error)
        if self._task.traceback:
            traceback.print_exception(kind, error, where)

    def uncaught_by_thread(self, original: Callable[[Any], Any], ended: "threading.ExceptHookArgs") -> None:
        """Note the error that ended a thread; wraps threading.excepthook. The program may still end without error."""
        if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
            self._by_thread = self._told(ended.exc_value), self._steps
        original(ended)

    def part(self, module: ModuleType) -> None:
        """Note errors that end processes of multiprocessing, which prints them and never calls sys.excepthook."""

        def run_and_note(run: Any, one: Any) -> None:
            try:
                run(one)
            except Exception as error:
                self._error = self._told(error)
                raise

        module.BaseProcess.run = hooked(module.BaseProcess.run, run_and_note)

    @property
    def _steps(self) -> int:
        return self._watch.steps if self._watch is not None else 0

    def _told(self, error: BaseException) -> ScriptError:
        """Return the report's entry for an error: its place, its message, and the user's functions under way."""
        root = places.root_of(error)
        if (child := _of_child(root)) is not None:
            return child
        first = _first_line(root)
        said = f"{type(root).__name__}: {first}" if first else type(root).__name__
        if isinstance(root.__cause__, Exception):  # as of a pipeline's stage: the cause says why it failed
            said += f" ({type(root.__cause__).__name__}: {_first_line(root.__cause__)})"
        if "triton" in (getattr(root, "name", "") or "") or _passes_through("triton", root):
            from coopsim.run.probes import toolchain

            lack = toolchain.missing()
            said += f"; a Triton kernel {lack}" if lack else ""
        place = places.of_error(root) or places.of_error(error)
        return ScriptError(place, said, tuple(places.functions_of(root)))

    def forget(self) -> None:
        """Stop watching in a fork of the process, such as a DataLoader's worker, which writes no report."""
        self._limit = None  # its thread is not in the fork
        atexit.unregister(self.end)
        if self._plugin is not None:  # before the watch, as its modes were entered last
            self._plugin.forget()
        if self._watch is not None:
            self._watch.forget()

    def _ended_by_limit(self, said: str) -> None:
        """Write the report of a process that is ended as the host's memory runs out."""
        self._error = ScriptError(places.here(), said)
        self.end()

    def end(self) -> None:
        """Write the report; called at the end of the process."""
        if not self._lock.acquire(blocking=False):  # the limit's thread does
            self._lock.acquire()
        if self._limit is not None:
            self._limit.stop()
        if self._error is None and self._by_thread is not None and self._by_thread[1] == self._steps:
            self._error = self._by_thread[0]  # no step followed the thread's error
        found = ProcessReport(error=self._error)
        failures = []
        if (made := self._plugin) is not None:
            failures.append(probe.attempt(lambda: setattr(found, "plugin", made.end())))
        if (watch := self._watch) is not None:
            failures.append(probe.attempt(lambda: watch.end(found)))
            if failures[-1]:  # half a report would have wrong figures
                found = ProcessReport(error=self._error, plugin=found.plugin)
        found.failure = "; ".join(filter(None, failures))
        if not os.path.isdir(self._folder):  # the run is over, as it is when another process has failed
            return
        part = os.path.join(self._folder, f".{os.getpid()}")
        with open(part, "w", encoding="utf-8") as file:
            file.write(found.message())
        os.rename(part, os.path.join(self._folder, f"{os.getpid()}.json"))
        if self._task.card:
            _end_soon()
