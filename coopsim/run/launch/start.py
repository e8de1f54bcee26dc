"""Start a program on the phantom GPU, or on this machine's devices, and collect the reports of its processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coopsim import phantom
from coopsim.base.errors import CaptureError
from coopsim.base.progress import note
from coopsim.run.probes import ending
from coopsim.run.process import ProcessReport
from coopsim.run.ranks import launcher
from coopsim.run.ranks.world import PER_NODE
from coopsim.run.script import Script, command_path
from coopsim.run.task import Task

_PATIENCE_S = 10


@dataclass(frozen=True)
class RanProgram:
    """The end of a program, or of one rank of a job: its exit code, and the reports of its processes.

    `interrupted`: it was ended before its time, and the reports are of what it did until then.
    """

    rank: int
    code: int
    reports: list[ProcessReport]
    interrupted: bool = False


class Running:
    """The processes that runs have started and that have not ended. It is given to `run` by a main thread that is to
    end them at Ctrl-C, which only the main thread receives.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leaders: dict[subprocess.Popen[bytes], bool] = {}
        self._ended = False

    def add(self, child: "subprocess.Popen[bytes]", *, leads_group: bool = False) -> None:
        """Add a process that was started; after `end_all` it is killed at once.

        `leads_group`: it leads a process group, which is killed as a whole.
        """
        with self._lock:
            self._leaders[child] = leads_group
            if self._ended:
                _kill(child, group=leads_group)

    def end(self, child: "subprocess.Popen[bytes]") -> None:
        """Kill a process that was added, if it still runs, wait for its end, and forget it."""
        with self._lock:
            _kill(child, group=self._leaders.pop(child))
        child.wait()

    def end_all(self) -> None:
        """Kill all processes, and from now on each that is added, without waiting for them."""
        with self._lock:
            self._ended = True
            for child, group in self._leaders.items():
                _kill(child, group=group)


def program(
    script: Script, task: Task, running: Running, *, partial: bool = False
) -> tuple[launcher.Launch | None, RanProgram]:
    """Run the command to its end, and return what it would start, if it is a launcher, else None; and its end.

    partial: KeyboardInterrupt ends it with its next optimizer step and is raised again only if there is no report.
    Raises CaptureError for a launcher that is not supported, and if another Python than coopsim's ran the script.
    """
    launcher.check(script.command)
    given = os.environ | dict(script.variables)
    cards = launcher.devices(script.command, given)
    launch, ran = _program(script, task, running, cards, partial=partial)
    if launch is not None and launch.per_node == cards == 1 and "CUDA_VISIBLE_DEVICES" not in given:
        # mp.spawn was called, most often for a process per card: on a machine with several it says how many it starts.
        launch, ran = _program(script, task, running, PER_NODE, partial=partial)
    return launch, ran


def _program(
    script: Script, task: Task, running: Running, cards: int, *, partial: bool
) -> tuple[launcher.Launch | None, RanProgram]:
    """As `program`, on a machine with so many cards."""
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        environment = variables(script, task, folder, devices=cards)
        with _child(script, environment, running) as child:
            try:
                code = child.wait()
            except KeyboardInterrupt:
                if not (partial and _ended_early(child, folder)):
                    raise
                return None, RanProgram(0, child.returncode, reports(folder), interrupted=True)
        return launcher.read(folder, environment), RanProgram(0, code, reports(folder))


def _ended_early(child: "subprocess.Popen[bytes]", folder: str) -> bool:
    """Ask an interrupted program to end, first after its step, then at once. Whether it left a report of its use."""
    ending.ask_to_end(folder)
    note(f"interrupted: waiting {_PATIENCE_S} s for the end of the step; again to give up")
    for _ in range(2):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE_S)
            break
        child.send_signal(signal.SIGINT)
    return child.poll() is not None and any(report.used for report in reports(folder))


def say(script: Script, text: str) -> None:
    """Print a note on stderr, unless the script is to be quiet."""
    if not script.quiet:
        note(text)


def variables(script: Script, task: Task, folder: str, *, devices: int = 1) -> dict[str, str]:
    """Return the environment of a process with this task, ours included; its reports go to `folder`.

    It sees `devices` phantom cards, or, for a script without a card, this machine's own devices.
    """
    gpu = (
        phantom.environment(script.card, total_bytes=script.total_bytes, devices=devices, workspaces=script.workspaces)
        if script.card
        else phantom.without_gpu()
    )
    site = Path(folder, "site")  # of its own: all modules of a folder on PYTHONPATH can be imported
    site.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parents[1] / "sitecustomize.py", site)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    caches = phantom.compiler_caches()
    return (
        os.environ
        | dict(script.variables)
        | gpu
        | task.variables(folder)
        | caches
        | {"PATH": command_path(), "PYTHONPATH": path}
    )


def reports(folder: str) -> list[ProcessReport]:
    """Return the reports that processes have left in `folder`, one each; [] if there are none.

    Raises CaptureError if there are none because another Python than coopsim's ran the processes.
    """
    found = [ProcessReport.read(file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob("*.json"))]
    foreign = Path(folder, "foreign")
    if foreign.exists() and not found:
        raise CaptureError(foreign.read_text(encoding="utf-8"))
    return found


def outputs(script: Script) -> tuple[int | None, int | None]:
    """Return the descriptors for the script's stdout and stderr, as subprocess takes them; None: our own."""
    quiet = subprocess.DEVNULL if script.quiet else None
    return quiet or script.output, quiet


@contextlib.contextmanager
def _child(script: Script, environment: dict[str, str], running: Running) -> "Iterator[subprocess.Popen[bytes]]":
    stdout, stderr = outputs(script)
    child = subprocess.Popen(script.words(), env=environment, stdout=stdout, stderr=stderr)  # noqa: S603
    running.add(child)
    try:
        yield child
    finally:
        running.end(child)


def _kill(child: "subprocess.Popen[bytes]", *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
