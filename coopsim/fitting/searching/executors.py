"""Run scripts on this machine, or on the workers of a Dask cluster, in the same folder there."""

import json
import pickle
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from coopsim.base.types import CoopsimError
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.copies import copied
from coopsim.fitting.figures import goes_by_plan
from coopsim.fitting.saved import versions
from coopsim.live.host.hosting import Hosting
from coopsim.run import Report, Script, run
from coopsim.run.launch.start import Running

PLUGIN = "coopsim.fitting.inside"
LIVE = "coopsim.live.guest"
_STARTS = 3  #: runs of a script in a budget, until its steps go by plan


class Local:
    """Runs scripts on this machine; an instance is called with a script, from any thread. `end` ends all runs."""

    def __init__(self) -> None:
        self._running = Running()

    def __call__(self, script: Script, texts: Mapping[str, str] | None = None) -> Report:
        """Run a script as coopsim.run.run does, and return the report.

        texts: run a copy of it, in which files have these texts, by path (editing.copies.copied); None: itself.
        """
        return _run(script, texts, self._running)

    def here(self, script: Script, requests: Path | None = None) -> Report:
        """Run a script on this machine, wherever others run, and return the report.

        If it fails for no known reason, the error names a command that shows why. `requests`: as for script.run.
        """
        try:
            return run(script, requests=None if script.is_long else requests, running=self._running)
        except CoopsimError as e:
            if "ended with exit code" in str(e):
                raise CoopsimError(f"{e}; coopsim phantom run -- {shlex.join(script.command)} shows why") from None
            raise

    def end(self) -> None:
        """Kill the runs that other threads wait for, and every run that is started from now on."""
        self._running.end_all()


class Cluster(Local):
    """Runs scripts on a cluster's workers, as many at a time as there are workers."""

    def __init__(self, name: str, executor: Any) -> None:
        super().__init__()
        self._name, self._executor = name, executor
        self._folder, self._versions = str(Path.cwd()), versions()

    def __call__(self, script: Script, texts: Mapping[str, str] | None = None) -> Report:
        """Run a script, or a copy of it that is made there, on a worker, and return the report.

        Raises CoopsimError as coopsim.run.run does, and if the cluster goes away or its worker cannot run the
        script.
        """
        try:
            done = self._executor.submit(_in_folder, self._folder, script, texts, self._versions).result()
        except BrokenExecutor:
            raise CoopsimError(f"{self._name} went away") from None
        if isinstance(done, str):
            raise CoopsimError(done)
        report: Report = done
        return report

    def end(self) -> None:
        """Kill the runs on this machine and cancel those that have not started.

        Those under way on workers continue there, but are not waited for.
        """
        super().end()
        self._executor.client.cancel(list(self._executor.remote.values()))


@contextmanager
def opened(executor: str) -> Iterator[Local]:
    """Within the context, give the means to run scripts that `--executor` names: "processes", or "dask://HOST:PORT".

    Raises CoopsimError if it names neither, or if there is no such cluster.
    """
    if executor == "processes":
        yield Local()
        return
    from coopsim.study.sweep.workers import find

    where = find(executor, 1)
    assert where is not None
    cluster = where.start({})
    try:
        yield Cluster(executor, cluster)
    finally:
        where.stop(cluster, now=True)


def changed(script: Script, changes: Changes) -> Script:
    """Return a Script of the same command which, when it is run, makes the changes; nothing runs here.

    A plugin makes them, code in the script's process (fitting.inside, or live's); variables and number of ranks are
    set.
    """
    plugin, told = PLUGIN, changes.message()
    if changes.live:
        hosting = asdict(Hosting()) if changes.offload else None
        plugin, told = LIVE, json.dumps({"memory": changes.live, "hosting": hosting})
    return replace(
        script,
        variables=changes.variables,
        world_size=changes.cards or script.world_size,
        plugin=plugin,
        told=told,
        explains=not changes.live,  # it goes on after memory has run out, and each explanation takes a second
    )


def _in_folder(
    folder: str, script: Script, texts: Mapping[str, str] | None, wanted: tuple[object, ...]
) -> Report | str:
    """Run a script on a worker, in a process of its own in `folder`; return its report, or why there is none.

    `texts`: as for Local. `wanted` are the versions that the caller has (saved.versions), which the worker must have,
    too.
    """
    me = socket.gethostname()
    if versions() != wanted:
        return f"the worker on {me} has another version of coopsim, PyTorch or transformers"
    if not Path(folder).is_dir():
        return f"the worker on {me} has no folder {folder}: the script's files must be there as they are here"
    command = [sys.executable, "-m", "coopsim.fitting.searching.executors"]
    child = subprocess.run(command, cwd=folder, input=pickle.dumps((script, texts)), stdout=subprocess.PIPE)  # noqa: S603
    if child.returncode:
        return f"the worker on {me} could not run the script"
    done: Report | str = pickle.loads(child.stdout)  # noqa: S301 (our own process's)
    return done


def _run(script: Script, texts: Mapping[str, str] | None, running: Running | None = None) -> Report:
    if texts is None:
        return _in_budget(script, running) if script.plugin == LIVE else run(script, running=running)
    with copied(script.command, texts) as command:
        return run(replace(script, command=command), running=running)


def _in_budget(script: Script, running: Running | None) -> Report:
    """Run a script under `live`, up to three times, until most steps go by plan; its peak is that of all runs.

    Each run goes on with the plans of the one before, as starts of `live run` do. So a plan that a step has exceeded is
    replanned and tried, also where the script takes few steps.
    """
    told = json.loads(script.told)
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        kept = Path(folder, "kept.plan")
        told["cache"] = str(kept)
        report = run(replace(script, told=json.dumps(told)), running=running)
        peak = report.peak_device_bytes
        for _ in range(_STARTS - 1):
            if report.outcome != "ok" or report.plugin["failed"] or goes_by_plan(report) or not kept.exists():
                break
            report = run(replace(script, told=json.dumps(told | {"cached": True})), running=running)
            peak = max(peak, report.peak_device_bytes)
    return replace(report, peak_device_bytes=peak)


def _main() -> None:
    """Run a script that is read from stdin, and write its report to stdout, both pickled."""
    script, texts = pickle.load(sys.stdin.buffer)  # noqa: S301 (our own parent's)
    done: Report | str
    try:
        done = _run(script, texts)
    except CoopsimError as e:
        done = str(e)
    sys.stdout.buffer.write(pickle.dumps(done))


if __name__ == "__main__":
    _main()
