"""Run a script of the user's, unmodified, on the phantom GPU, and say what it took."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopsim import phantom
from coopsim.capture.errors import CaptureError
from coopsim.script.report import OutOfMemory, Report
from coopsim.script.task import Task

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True)
class Script:
    """A command that trains on a GPU, and the card to run it on. `memory_bytes` None: what the card has.

    `output` is the descriptor that the script's stdout goes to (None: our own), `quiet` drops all that it says.
    """

    command: tuple[str, ...]
    card: str = "a100-80gb"
    memory_bytes: int | None = None
    precision: str = "tf32"
    traceback: bool = False
    output: int | None = None
    quiet: bool = False

    @property
    def profile(self) -> phantom.Profile:
        """The card."""
        return phantom.profiles.get(self.card)

    @property
    def total_bytes(self) -> int:
        """The memory that the script finds, the context's share included."""
        return self.memory_bytes or self.profile.memory_bytes

    @property
    def title(self) -> str:
        """The command as it is shown: without the folder of the file."""
        words = [Path(w).name if w.endswith(".py") else w for w in self.command]
        return " ".join(words[1:] if _PYTHON.fullmatch(Path(words[0]).name) and len(words) > 1 else words)

    def with_memory(self, nbytes: int) -> "Script":
        """The same on a card with other memory, unheard."""
        return replace(self, memory_bytes=nbytes, quiet=True)

    def _words(self) -> list[str]:
        """The command to start. A bare `python`, or a Python file, runs under the Python that runs us."""
        first = self.command[0]
        if first.endswith(".py"):
            if not Path(first).is_file():
                raise CaptureError(f"{first}: no such file")
            return [sys.executable, *self.command]
        if _PYTHON.fullmatch(first):
            return [sys.executable, *self.command[1:]]
        found = shutil.which(first, path=_path())
        if found is None:
            raise CaptureError(f"{first}: no such command")
        return [found, *self.command[1:]]


def run(script: Script, *, snapshot: Path | None = None, requests: Path | None = None) -> Report:
    """Run a script to its end.

    `snapshot`: write a memory snapshot of PyTorch's there, of the moment when memory ran out, or else of the end.
    `requests`: write what was asked of the allocator there (requests.py), if there were not too many.
    Raises CaptureError if the script failed for another reason than memory, or never used the GPU; PhantomError if
    there can be no phantom GPU here.
    """
    task = Task(script.card, script.precision, traceback=script.traceback and not script.quiet)
    task = replace(task, snapshot=_absolute(snapshot), requests=_absolute(requests))
    code, reports = _start(script, task)
    used = [r for r in reports if r.get("used")]
    if not used:
        _explain(script, code, reports)
        if not reports:
            raise CaptureError(f"{script.title} left no report: it ended at once, as by os._exit or a signal")
        raise CaptureError(f"{script.title} never used the GPU: nothing in it ran on the device cuda")
    most = max(used, key=lambda r: int(r["peak_reserved_bytes"]))
    oom = code != 0 and any(r["ooms"] for r in used)
    if not oom:
        _explain(script, code, reports)
    seen = most["out_of_memory"]
    keys = ("steps", "peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes", "peak_device_bytes")
    return Report(
        command=list(script.command),
        gpu=script.card,
        memory_bytes=script.total_bytes,
        context_bytes=script.profile.context_mib << 20,
        outcome="oom" if oom else "ok",
        processes=len(used),
        out_of_memory=OutOfMemory.of(seen) if seen else None,
        **{key: most[key] for key in (*keys, "retries", "ooms", "versions", "needs_data")},
    )


def record(script: Script, out: Path, *, steps: int, warmup: int) -> None:
    """Run a script and write a trace of `steps` consecutive steps of it, after `warmup` (at least 1).

    A step is what lies between two calls of Optimizer.step. Raises what `run` raises, and CaptureError if there are
    too few steps.
    """
    task = Task(script.card, script.precision, traceback=script.traceback and not script.quiet)
    task = replace(task, trace=_absolute(out), steps=steps, warmup=warmup, command=script.title)
    code, reports = _start(script, task)
    if not any(r.get("trace") == "written" for r in reports):
        _explain(script, code, reports)
        need = max(warmup, 1) + steps
        raise CaptureError(
            f"{script.title} is too short for a trace: that takes {need} calls of a torch optimizer's step"
        )


def _start(script: Script, task: Task) -> tuple[int, list[dict[str, Any]]]:
    """Run the command: its exit code, and the reports of its processes."""
    words = script._words()
    site = str(Path(__file__).parent / "site")
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        variables = (
            os.environ | phantom.environment(script.card, total_bytes=script.total_bytes) | task.variables(folder)
        )
        variables |= {
            "PATH": _path(),
            "PYTHONPATH": os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")])),
        }
        with _child(words, variables, script) as child:
            code = child.wait()
        reports = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob("*.json"))]
        foreign = Path(folder, "foreign")
        if foreign.exists() and not reports:
            raise CaptureError(foreign.read_text(encoding="utf-8"))
    return code, reports


@contextlib.contextmanager
def _child(words: list[str], variables: dict[str, str], script: Script) -> Any:
    quiet = subprocess.DEVNULL if script.quiet else None
    child = subprocess.Popen(words, env=variables, stdout=quiet or script.output, stderr=quiet)  # noqa: S603
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()


def _explain(script: Script, code: int, reports: list[dict[str, Any]]) -> None:
    """Raise CaptureError if the script failed, with all that is known of why."""
    if code == 0:
        return
    for report in reports:
        if report.get("failure"):
            raise CaptureError(f"watching {script.title} failed: {report['failure']}")
    # A launcher's own error says only that a rank failed; the rank's says why.
    failed = sorted((r for r in reports if r["error"]), key=lambda r: r["error"]["launcher"])
    error, report = next(((r["error"], r) for r in failed), (None, {}))
    if error is None:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise CaptureError(f"{script.title} {how}")
    hint = ""
    if report.get("needs_data"):
        first = report["needs_data"][0]
        hint = f"; {first['op']} at {first['place']} takes its sizes from data on the device, which is all zeros here"
    elif report.get("last_value_read"):
        last = report["last_value_read"]
        hint = f"; the last value read from the device was by {last['op']} at {last['place']}, and is 0 here"
    where = error["place"] or script.title
    raise CaptureError(f"{where}: {error['error']}{hint}")


def _absolute(path: Path | None) -> str:
    return "" if path is None else str(path.absolute())


def _path() -> str:
    """Where commands are looked for: beside our own Python first, so that `accelerate` and its like are found."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
