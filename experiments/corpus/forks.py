"""Run scripts in forks of one process that has imported torch, each plain and watched; started by run.py.

    forks.py CARD SECONDS [--watched]

SECONDS are of processor time, for one run; with --watched there is no plain one. Reads a JSON list of [file,
[argument, …]] from stdin, and writes a line of JSON for each script to stdout. Importing
torch and transformers takes most of the time of a small script; here they are imported once, before there is a CUDA
context. What watches is what `coopsim phantom run` starts in a script's process, and so is what is made of its report.
Where the peaks of both differ, a third run is watched, too, but nothing is answered about data on the device, which
reads as zeros as in the plain run.
"""

import contextlib
import json
import os
import resource
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from coopsim.base.errors import CaptureError
from coopsim.phantom import compilers
from coopsim.record.observe.device_data import DeviceData
from coopsim.run import Script
from coopsim.run.launch import inside, start
from coopsim.run.launch.run import _report
from coopsim.run.task import Task

_is_available = torch.cuda.is_available
torch.cuda.is_available = lambda: True  # type: ignore[method-assign]  # asking starts CUDA, which no fork could use
with contextlib.suppress(ImportError):
    import transformers  # noqa: F401
    from transformers import Trainer  # noqa: F401
torch.cuda.is_available = _is_available  # type: ignore[method-assign]

CARD, SECONDS, PLAIN = sys.argv[1], int(sys.argv[2]), "--watched" not in sys.argv
KINDS = "requested", "allocated", "reserved"


def main() -> None:
    """Run all of them."""
    out = os.fdopen(os.dup(1), "w")
    for file, arguments in json.load(sys.stdin):
        row = {"plain": measured(file, arguments, watched=False)} if PLAIN else {}
        row["watched"] = measured(file, arguments, watched=True)
        if PLAIN and row["plain"]["peaks"] != row["watched"]["peaks"] and not row["plain"]["failed"]:
            row["unanswered"] = measured(file, arguments, watched=True, answers=False)
        print(json.dumps(row), file=out, flush=True)


def measured(file: str, arguments: list[str], *, watched: bool, answers: bool = True) -> dict[str, Any]:
    """One run: its processor time, its peaks, and why it failed, "" if it did not; of a watched one also the report."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if not answers:
                    answer_nothing()
                code = inside_fork(file, arguments, folder, watched=watched)
            finally:
                os._exit(code)
        code, seconds = ended(child)
        peaks, said = Path(folder, "peaks"), Path(folder, "said").read_text(encoding="utf-8", errors="replace")
        ends = -code == signal.SIGKILL or -code == signal.SIGXCPU
        last = [f"took more than {SECONDS} s"] if ends else [line for line in said.splitlines() if line.strip()][-1:]
        found = {"seconds": seconds, "failed": (last or [f"exit code {code}"])[0][:300] if code else ""}
        found["peaks"] = json.loads(peaks.read_text(encoding="utf-8")) if peaks.exists() else None
        return found | (reported(file, code, folder) if watched else {})


def reported(file: str, code: int, folder: str) -> dict[str, Any]:
    """What `coopsim phantom run` would say."""
    try:
        report = _report(Script((file,), CARD), start.RanProgram(0, code, start.reports(folder)))
    except CaptureError as e:
        return {"failed": str(e)}
    if report.watched_by_mode:  # it would be compared with what only machines without a C++ compiler do
        return {"failed": f"watched by a dispatch mode, not below autograd: {compilers.why_not()}"}
    return {
        "failed": "",
        "verdict": report.outcome,
        "steps": report.steps,
        "peaks": [getattr(report, f"peak_{kind}_bytes") for kind in KINDS],
        "needs_data": sorted({one.op for one in report.needs_data}),
    }


def ended(child: int) -> tuple[int, float]:
    """Wait for a fork: its exit code, and its processor time."""
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), round(used.ru_utime + used.ru_stime, 2)


def inside_fork(file: str, arguments: list[str], folder: str, *, watched: bool) -> int:
    """Run a script as Python does, and leave its peaks in the folder. Returns the exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # a loop that waits for the device never ends
    sys.argv, sys.path[0] = [file, *arguments], str(Path(file).parent)
    os.chdir(folder)
    for compiler in ("TORCHINDUCTOR", "TRITON"):  # each run is a first one: later ones need not measure kernels
        os.environ[f"{compiler}_CACHE_DIR"] = str(Path(folder, compiler.lower()))
    said = os.open("said", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    torch.cuda._is_in_bad_fork = lambda: False  # the stand-in driver has no context yet
    process = watching(folder) if watched else None
    code = 0
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as e:
        code = int(bool(e.code))
    except BaseException as e:
        code = 1
        traceback.print_exc()
        if process is not None:
            process.uncaught(type(e), e, e.__traceback__)
    if process is not None:
        process.end()
    stats = torch.cuda.memory_stats()
    Path(folder, "peaks").write_text(json.dumps([stats.get(f"{kind}_bytes.all.peak", 0) for kind in KINDS]))
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def answer_nothing() -> None:
    """Leave what the script reads of the device as it is: zeros."""

    @contextlib.contextmanager
    def asked(_self: Any, _func: Any, _args: Any, kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield kwargs

    DeviceData.asked = asked  # type: ignore[method-assign]
    DeviceData.after = lambda _self, _func, _args, _kwargs, out, _newest: out  # type: ignore[method-assign]


def watching(folder: str) -> Any:
    """What sitecustomize and the import of torch start in a script's process."""
    task = Task(CARD)
    os.environ.update(task.variables(folder))
    process = inside._Process(task, folder)
    process.begin(torch)
    for name, call in (
        ("torch._dynamo", process.dynamo),
        ("torch._inductor.runtime.triton_heuristics", process.kernels),
        ("multiprocessing.process", process.part),
    ):
        inside.after_import(name, call)
    os.register_at_fork(after_in_child=process.forget)
    return process


if __name__ == "__main__":
    main()
