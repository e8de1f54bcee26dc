"""Where replays run: executors that are given the traces once, and can be had anew when a worker is lost."""

import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Protocol

from coopsim.base.types import CoopsimError
from coopsim.study.sweep.worker import hold
from coopsim.trace import Trace


class Workers(Protocol):
    """How to get an executor whose workers hold the traces."""

    in_flight: int  #: replays to hand out at once

    def start(self, traces: Mapping[str, Trace]) -> Executor:
        """An executor, new if one was stopped before. CoopsimError if there is none to be had."""

    def stop(self, executor: Executor, *, now: bool) -> None:
        """Give it back. now: what it is at is not waited for."""


class _Worker(SpawnProcess):
    """A process that Ctrl-C does not reach while it starts, either: `_begin` ignores it from then on."""

    def start(self) -> None:
        resource_tracker.ensure_running()  # started later, it would let the signal through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Spawn(SpawnContext):
    Process = _Worker


class Processes:
    """Processes on this machine, which end when this one does, however it does."""

    def __init__(self, jobs: int = 0) -> None:
        self.jobs = jobs or os.cpu_count() or 1
        self.in_flight = 4 * self.jobs
        self._alive: Connection | None = None

    def start(self, traces: Mapping[str, Trace]) -> Executor:
        """Spawned, as threads of this process may hold locks that a fork would copy."""
        context = _Spawn()
        ours, self._alive = context.Pipe(duplex=False)
        return ProcessPoolExecutor(self.jobs, mp_context=context, initializer=_begin, initargs=(dict(traces), ours))

    def stop(self, executor: Executor, *, now: bool) -> None:
        """Closing our end of the pipe ends the workers wherever they are."""
        if now and self._alive is not None:
            self._alive.close()
        executor.shutdown(cancel_futures=True)
        if self._alive is not None:
            self._alive.close()
            self._alive = None


def _begin(traces: Mapping[str, Trace], parent: Connection) -> None:
    """Run first in every worker process. Ctrl-C reaches all processes of a terminal; the parent answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    hold(traces)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """A pool's workers outlive a parent that was killed, waiting for work. Nothing is ever sent: this waits."""
    with suppress(EOFError, OSError):
        parent.recv_bytes()
    os._exit(1)


class Dask:
    """Workers of a running Dask cluster, which need coopsim, but none of our files."""

    in_flight = 256

    def __init__(self, address: str) -> None:
        self.address = address.removeprefix("dask://")

    def start(self, traces: Mapping[str, Trace]) -> Executor:
        """Every worker gets the traces at once, those that join later when they do."""
        try:
            from coopsim.study.sweep import cluster
        except ImportError:
            raise CoopsimError("a cluster needs Dask: pip install 'coopsim[dask]'") from None
        return cluster.start(self.address, traces)

    def stop(self, executor: Executor, *, now: bool) -> None:  # noqa: ARG002
        """The workers stay; they forget the traces."""
        from coopsim.study.sweep import cluster

        cluster.stop(executor)


def find(text: str, jobs: int) -> Workers | None:
    """What `--executor` and `--jobs` mean; None: this process. CoopsimError for another word."""
    if text == "processes":
        return Processes(jobs) if jobs > 1 else None
    host, _, port = text.removeprefix("dask://").rpartition(":")
    if text.startswith("dask://") and host and port.isdecimal() and 0 < int(port) < 1 << 16:
        return Dask(text)
    raise CoopsimError(f"executor {text!r} is none of processes, dask://HOST:PORT")
