"""Where a script runs: here, or on the workers of a Dask cluster, in the folder that it has here."""

import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coopsim.fit.saved import versions
from coopsim.script import Report, Script, run
from coopsim.script.running import Running
from coopsim.types import CoopsimError


class Local:
    """Runs scripts in this process's threads. Call it with a script."""

    def __init__(self) -> None:
        self._running = Running()

    def __call__(self, script: Script) -> Report:
        """As coopsim.script.run."""
        return run(script, running=self._running)

    def end(self) -> None:
        """End what other threads wait for, and whatever is begun from now on."""
        self._running.end_all()


class Cluster(Local):
    """Runs on a cluster's workers, as many as it has at a time."""

    def __init__(self, name: str, executor: Any) -> None:
        super().__init__()
        self._name, self._executor = name, executor
        self._folder, self._versions = str(Path.cwd()), versions()

    def __call__(self, script: Script) -> Report:
        """CoopsimError, too, if the cluster goes away, or its worker cannot run the script."""
        try:
            done = self._executor.submit(in_folder, self._folder, script, self._versions).result()
        except BrokenExecutor:
            raise CoopsimError(f"{self._name} went away") from None
        if isinstance(done, str):
            raise CoopsimError(done)
        report: Report = done
        return report

    def end(self) -> None:
        """A run that has begun ends on its worker; it is not waited for."""
        self._executor.client.cancel(list(self._executor.remote.values()))


@contextmanager
def opened(executor: str) -> Iterator[Local]:
    """What `--executor` means. CoopsimError if it means nothing, or there is no such cluster."""
    if executor == "processes":
        yield Local()
        return
    from coopsim.sweep.workers import find

    where = find(executor, 1)
    assert where is not None
    cluster = where.start({})
    try:
        yield Cluster(executor, cluster)
    finally:
        where.stop(cluster, now=True)


def in_folder(folder: str, script: Script, wanted: tuple[object, ...]) -> Report | str:
    """On a worker: the run's report, or why there is none. In a process of its own, which may have another folder."""
    me = socket.gethostname()
    if versions() != wanted:
        return f"the worker on {me} has another version of coopsim, PyTorch or transformers"
    if not Path(folder).is_dir():
        return f"the worker on {me} has no folder {folder}: the script's files must be there as they are here"
    command = [sys.executable, "-m", "coopsim.fit.executors"]
    child = subprocess.run(command, cwd=folder, input=pickle.dumps(script), stdout=subprocess.PIPE)  # noqa: S603
    if child.returncode:
        return f"the worker on {me} could not run the script"
    done: Report | str = pickle.loads(child.stdout)  # noqa: S301 (our own process's)
    return done


def _main() -> None:
    """In that process: a script from stdin, its report to stdout."""
    script = pickle.load(sys.stdin.buffer)  # noqa: S301 (our own parent's)
    done: Report | str
    try:
        done = run(script)
    except CoopsimError as e:
        done = str(e)
    sys.stdout.buffer.write(pickle.dumps(done))


if __name__ == "__main__":
    _main()
