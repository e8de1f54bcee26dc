"""Record and measure on a GPU all that docs/accuracy.md compares with the simulation, in parts of at most nine minutes.

    python experiments/gpu/run.py [--part PART] [--budget-s 540] [--out FOLDER] [--pack FOLDER]

Needs a machine with a CUDA GPU and, in its Python: torch, transformers, numpy, numba, pandas and pyarrow; nothing is
downloaded, and coopsim itself need not be installed. Results go to experiments/gpu/results/GPU-DATE/, a file at a time,
each whole or not there. A run that was cut off goes on when the same command runs again. Without --part all parts are
done, the most valuable first, as far as the time goes. --pack also leaves them as a few tar files elsewhere, however
the run ends.
At its end it says what is there and what is not; the exit code is 0 only if all of it is. Then, on any machine,
`python experiments/gpu/report.py FOLDER` makes the tables.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:1] = [str(ROOT)]  # its modules are experiments.gpu's, and shadow nobody's

from coopsim.base import files  # noqa: E402
from coopsim.base.errors import unknown  # noqa: E402
from coopsim.base.types import CoopsimError  # noqa: E402
from experiments.gpu import machine, names, pack  # noqa: E402
from experiments.gpu.tasks import GPU, HOST, PARTS, Task, chosen, plan  # noqa: E402

_BUDGET_S = 540
_RESERVE_S = 5  #: kept of the budget, to write what was done
_LARGEST_FOLDER = 60_000_000

Spent = dict[str, float]  #: by task: wall_s, cpu_s, memory_bytes


class Runner:
    """Runs tasks in two lanes until all are done or time is up, and remembers how each ended."""

    def __init__(self, folder: Path, tasks: list[Task], budget_s: float) -> None:
        self.folder, self.tasks = folder, tasks
        self.outcome = {task.name: "done" for task in tasks if task.done(folder)}
        before = _read(folder / names.RUN)
        mine = {task.name for task in tasks if task.name not in self.outcome}
        self.spent: dict[str, Spent] = {k: v for k, v in before.get("spent", {}).items() if k not in mine}
        self._others = {name: how for name, how in before.get("tasks", {}).items() if name not in mine}  #: parts'
        self._end = time.monotonic() + budget_s - _RESERVE_S
        self._patience = max(budget_s / _BUDGET_S, 1)  # with a larger budget a task may take longer, too
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[str]] = set()

    def run(self) -> None:
        """Both lanes to their end."""
        host = threading.Thread(target=self._lane, args=(HOST,), daemon=True)
        host.start()
        self._lane(GPU)
        host.join()

    def stop(self) -> None:
        """End the tasks that run."""
        self._end = 0
        for child in list(self._children):
            _end(child)

    def _lane(self, lane: str) -> None:
        while time.monotonic() < self._end:
            mine = [t for t in self.tasks if t.lane == lane and t.name not in self.outcome]
            if not mine:
                return
            ready = next((task for task in mine if task.ready(self.folder)), None)
            if ready is not None:
                self._perform(ready)
            elif self._nobody_makes(mine):
                return
            else:
                time.sleep(0.2)

    def _nobody_makes(self, waiting: list[Task]) -> bool:
        """Will nothing that the tasks wait for come?"""
        coming = {file.name for file in self.folder.iterdir()}
        open_tasks = [task for task in self.tasks if task.name not in self.outcome]
        more = True
        while more:
            more = False
            for task in open_tasks:
                if set(task.needs) <= coming and not set(task.makes) <= coming:
                    coming.update(task.makes)
                    more = True
        return not any(set(task.needs) <= coming for task in waiting)

    def _perform(self, task: Task) -> None:
        left = self._end - time.monotonic()
        print(f"[{left:5.0f} s left] {task.name}\n", end="", flush=True)
        start = time.monotonic()
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        variables = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            child = subprocess.Popen(  # noqa: S603
                command_of(task),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._children.add(child)
            in_time, used = _wait(child, max(min(left, task.limit_s * self._patience), 0.1))
            self._children.discard(child)
            wall = time.monotonic() - start
            output.seek(0)
            if not in_time:
                how = f"ended after {wall:.0f} s"
            else:
                how = "done" if child.returncode == 0 else _last_line(output.read())
        if how == "done" and task.makes and not task.done(self.folder):
            how = "made less than it should"
        with self._lock:
            self.spent[task.name] = {
                "wall_s": round(wall, 1),
                "cpu_s": round(used.ru_utime + used.ru_stime, 1),
                "memory_bytes": used.ru_maxrss * 1024,
            }
            self.outcome[task.name] = how
            self.note()
        if how != "done":
            print(f"        {task.name}: {how}\n", end="", file=sys.stderr, flush=True)

    def note(self) -> None:
        """Write how the tasks ended, and what they took: seconds, seconds of processors, the largest process."""
        about = _read(self.folder / names.MACHINE).get("machine", {})
        tasks = self._others | {t.name: self.outcome.get(t.name, "not begun") for t in self.tasks}
        with files.replacing(self.folder / names.RUN) as part:
            content = {"machine": about, "date": machine.now(), "tasks": tasks, "spent": self.spent}
            part.write_text(json.dumps(content, indent=1) + "\n")


def command_of(task: Task) -> list[str]:
    """What runs a task."""
    return [sys.executable, "-m", f"experiments.gpu.{task.script}", *task.arguments]


def _wait(child: "subprocess.Popen[str]", seconds: float) -> tuple[bool, resource.struct_rusage]:
    """Wait for a task, and end it after so long: whether it ended of itself, and what it used."""
    end, in_time = time.monotonic() + seconds, True
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return in_time, used
        if in_time and time.monotonic() > end:
            in_time = False
            _end(child)
        time.sleep(0.05)


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {}


def _end(child: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"


def card() -> tuple[str, str]:
    """The name of this machine's GPU, and the version of torch. CoopsimError, saying what is missing, if none works."""
    code = "import torch; print(torch.__version__, torch.cuda.get_device_name(0), sep='\\n')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    if said.returncode == 0:
        version, name = said.stdout.strip().splitlines()[-2:]
        return name, version.partition("+")[0]
    why = _last_line(said.stderr)
    if "cannot open shared object file" in why:
        library = why.removeprefix("ImportError: ").removeprefix("OSError: ").partition(":")[0]
        raise CoopsimError(
            f"the PyTorch of {sys.executable} lacks CUDA's libraries ({library}); install them, or name a Python whose "
            "PyTorch has them: make gpu PYTHON=…"
        )
    raise CoopsimError(f"PyTorch finds no GPU here: {why}")


def default_folder(gpu: str, torch: str, parts: tuple[str, ...]) -> Path:
    """results/GPU-DATE: the newest of this GPU and torch that lacks some of the parts, as a run goes on, or today's.

    Today's has the version of torch in its name if there is one of today with another.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    before = sorted((HERE / "results").glob(f"{slug}-20*"))
    same = [folder for folder in before if _torch_of(folder) == torch]
    if same and not all(task.done(same[-1]) for task in _plan(same[-1], parts) if task.makes):
        return same[-1]
    today = HERE / "results" / f"{slug}-{machine.now()[:10]}"
    return today.with_name(f"{today.name}-torch-{torch}") if _torch_of(today) not in (torch, "") else today


def _plan(folder: Path, parts: tuple[str, ...]) -> list[Task]:
    return chosen(plan(folder, names.MAIN, names.OTHERS, None), parts)


def _torch_of(folder: Path) -> str:
    """The version of torch of a folder's results, "" if there are none."""
    found = _read(folder / names.MACHINE).get("machine", {}).get("versions", {}).get("torch", "")
    return str(found).partition("+")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    every = "; ".join(f"{name}: {what}" for name, what in PARTS.items())
    parser.add_argument(
        "--part", default="", help=f"one or more, separated by commas, and what they need. {every.replace('%', '%%')}"
    )
    parser.add_argument("--budget-s", type=float, default=_BUDGET_S, help=f"end after so many seconds ({_BUDGET_S})")
    parser.add_argument("--out", type=Path, help="folder of results; one that is there is completed")
    parser.add_argument("--models", default=",".join(names.MAIN), help="models for everything")
    parser.add_argument("--others", default=",".join(names.OTHERS), help="models for traces only; may be empty")
    parser.add_argument("--pack", type=Path, help=f"also leave all here, as tar files of {pack.LARGEST >> 20} MiB")
    parser.add_argument("--batch", type=int, help="another batch size, for a rehearsal")
    args = parser.parse_args()
    try:
        parts = tuple(filter(None, args.part.split(",")))
        for name in parts:
            if name not in PARTS:
                raise unknown("part", name, PARTS)
        folder = (args.out or default_folder(*card(), parts)).absolute()
        for made in (folder, args.pack):
            if made:
                made.mkdir(parents=True, exist_ok=True)
        for part in folder.glob(".*.part"):  # of a run that was killed while it wrote
            part.unlink()
    except (CoopsimError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    main_models, others = (tuple(filter(None, text.split(","))) for text in (args.models, args.others))
    runner = Runner(folder, chosen(plan(folder, main_models, others, args.batch), parts), args.budget_s)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        runner.run()
    finally:
        runner.stop()
        runner.note()
        if args.pack:
            for name in pack.pack(folder, args.pack):
                print(f"run.py: {name} is too large to be packed", file=sys.stderr)
    missing = [task.name for task in runner.tasks if task.makes and not task.done(folder)]
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {size / 1e6:.1f} MB" + (f"; missing: {', '.join(missing)}" if missing else "; complete"))
    if size > _LARGEST_FOLDER:
        print(f"run.py: more than {_LARGEST_FOLDER / 1e6:.0f} MB, too much to commit", file=sys.stderr)
    return 1 if missing or size > _LARGEST_FOLDER else 0


if __name__ == "__main__":
    sys.exit(main())
