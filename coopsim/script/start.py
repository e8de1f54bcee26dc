"""Start the processes of a script on the phantom GPU, those of its ranks if it has any, and collect their reports."""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopsim import phantom
from coopsim.observe.errors import CaptureError
from coopsim.progress import note
from coopsim.script.ranks import buffers, launcher, needs, processes, stages, world
from coopsim.script.script import Script, command_path
from coopsim.script.task import Task

#: NCCL's watchdogs look by the phantom's clock (phantom/csrc/watchdog.c), which nobody shall take for a fault.
_DEFAULTS = {"TORCH_NCCL_ENABLE_MONITORING": "0"}
#: The programs that run now, in whatever thread.
_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Ran:
    """The end of a program, or of one rank of a job: its exit code, and the reports of its processes.

    `pipeline` is how many ranks its pipeline has, if it was run as a stage of one; `alike` are those that were not
    run because they are taken to be like it, `between` those that were not run though the next one that was is another.
    """

    rank: int
    code: int
    reports: list[dict[str, Any]]
    pipeline: int = 0
    alike: tuple[int, ...] = ()
    between: tuple[int, ...] = ()

    @property
    def figures(self) -> str:
        """What two ranks have in common if they are alike."""
        keys = ("steps", "peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes", "peak_by_kind")
        return json.dumps([{key: report.get(key) for key in keys} for report in self.reports if report.get("used")])


def run(script: Script, task: Task) -> tuple[world.World | None, list[Ran]]:
    """Run the command to its end; if it is a launcher, the ranks that it would start. No world: it is one program."""
    if script.world_size is not None and script.is_python:
        job = world.of_size(script.world_size)
        return _ranks(script, task, launcher.Launch.of(script.words(), job), job)
    launch, ran = program(script, task)
    if launch is not None:
        job = launch.world if script.world_size is None else launch.world.resized(script.world_size)
        return _ranks(script, task, launch, job)
    if ran.code == 0 and (script.world_size is not None or script.ranks is not None):
        option = "--world" if script.world_size is not None else "--ranks"
        raise CaptureError(
            f"{option}: {script.title} starts no ranks; name a launcher (torchrun), or the script itself with --world N"
        )
    return None, [ran]


def program(script: Script, task: Task) -> tuple[launcher.Launch | None, Ran]:
    """Run the command to its end, but no ranks: if it is a launcher, also what it would start."""
    launcher.check(script.command)
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        variables = _variables(script, task, folder, devices=launcher.devices(script.command))
        with _child(script, variables) as child:
            code = child.wait()
        return launcher.read(folder, variables), Ran(0, code, _reports(folder))


def _ranks(script: Script, task: Task, launch: launcher.Launch, job: world.World) -> tuple[world.World, list[Ran]]:
    """The ranks that were asked for. If nobody asked and they turn out to need each other: all, or a whole pipeline."""
    job = job.running(script.ranks)
    ran, pipeline = _run(script, task, launch, job)
    if not pipeline:
        return job, ran
    if script.ranks is not None:
        raise CaptureError(f"{script.title} is a pipeline, whose ranks need each other: --ranks all")
    if len(pipeline) == job.size <= stages.FEW:
        job = job.running("all")
        _say(script, "a pipeline, whose ranks differ and need each other: all of them are run")
        return job, _run(script, task, launch, job)[0]
    return _stages(script, task, launch, job, pipeline)


def _stages(
    script: Script, task: Task, launch: launcher.Launch, job: world.World, pipeline: tuple[int, ...]
) -> tuple[world.World, list[Ran]]:
    """One rank for each stage of a pipeline; of a long one those that differ."""
    many = "" if len(pipeline) == job.size else f", of which the job has {job.size // len(pipeline)}"
    how = "each stage is run" if len(pipeline) <= stages.FEW else "stages that differ are run"
    _say(script, f"a pipeline of {len(pipeline)} ranks{many}: {how}")
    ran: dict[int, Ran] = {}
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        wanted = stages.first(len(pipeline))
        while wanted:
            present = tuple(pipeline[n] for n in sorted([*ran, *wanted]))
            told = replace(task, ranks="stage", pipeline=pipeline, present=present, messages=folder)
            told = replace(told, requests="", trace="", snapshot="") if ran else told
            now = _run(script, told, launch, replace(job, run=tuple(pipeline[n] for n in wanted)))[0]
            ran |= {pipeline.index(one.rank): one for one in now}
            failed = len(now) < len(wanted) or any(one.code for one in now)
            figures = {n: one.figures for n, one in ran.items()}
            wanted = [] if failed else stages.more(figures)
    for n, one in ran.items():
        between, alike = stages.left_out(figures, n)
        out = tuple(pipeline[k] for k in between)
        ran[n] = replace(one, pipeline=len(pipeline), alike=out if alike else (), between=() if alike else out)
    return replace(job, run=tuple(pipeline[n] for n in sorted(ran))), [ran[n] for n in sorted(ran)]


def _run(script: Script, task: Task, launch: launcher.Launch, job: world.World) -> tuple[list[Ran], tuple[int, ...]]:
    """Each rank of a job that runs here; or the ranks of a pipeline, if one of them was alone and cannot be."""
    first = not task.present or len(task.present) == len(job.run)
    together = job.together or (task.ranks == "stage" and first)
    task = replace(task, ranks=task.ranks or ("together" if job.together else "alone"))
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        shared = buffers.variables(script.nccl_bytes) | ({processes.PEERS: folder} if task.ranks == "together" else {})
        folders = {rank: str(Path(folder, str(rank))) for rank in job.run}
        port, started = _free_port(), []
        for rank, own in folders.items():
            Path(own).mkdir()
            mine = replace(task, rank=rank, world=job.size)
            mine = mine if rank == job.run[0] else replace(mine, requests="", trace="")
            variables = _DEFAULTS | launch.variables | _variables(script, mine, own, devices=job.devices)
            variables |= job.variables(rank, port) | shared | {"COOPSIM_PHANTOM_PER_NODE": str(job.per_node)}
            started.append(processes.Process(launch.words(rank), variables, *_outputs(script)))
        if len(started) > 1:
            _say(script, processes.needs(len(started), together=together))
        processes.run(started, together=together)
        for own in folders.values():
            if pipeline := needs.said(own):
                return [], pipeline
        ended = [(rank, one.code) for rank, one in zip(job.run, started, strict=True) if one.code is not None]
        return [Ran(rank, code, _reports(folders[rank])) for rank, code in ended], ()


def _say(script: Script, text: str) -> None:
    if not script.quiet:
        note(text)


def _variables(script: Script, task: Task, folder: str, *, devices: int = 1) -> dict[str, str]:
    """The environment of a process whose reports go to a folder."""
    gpu = (
        phantom.environment(script.card, total_bytes=script.total_bytes, devices=devices)
        if script.card
        else phantom.without_gpu()
    )
    site = str(Path(__file__).parent / "site")
    path = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
    caches = phantom.compiler_caches()
    return (
        os.environ
        | dict(script.variables)
        | gpu
        | task.variables(folder)
        | caches
        | {"PATH": command_path(), "PYTHONPATH": path}
    )


def _reports(folder: str) -> list[dict[str, Any]]:
    """What processes have left. CaptureError if another Python than ours ran them."""
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob("*.json"))]
    foreign = Path(folder, "foreign")
    if foreign.exists() and not reports:
        raise CaptureError(foreign.read_text(encoding="utf-8"))
    return reports


def _outputs(script: Script) -> tuple[int | None, int | None]:
    """Where stdout and stderr go."""
    quiet = subprocess.DEVNULL if script.quiet else None
    return quiet or script.output, quiet


@contextlib.contextmanager
def _child(script: Script, variables: dict[str, str]) -> Any:
    stdout, stderr = _outputs(script)
    child = subprocess.Popen(script.words(), env=variables, stdout=stdout, stderr=stderr)  # noqa: S603
    _running.add(child)
    try:
        yield child
    finally:
        _running.discard(child)
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()


def end_all() -> None:
    """End the programs that other threads run: Ctrl-C reaches the main thread alone."""
    for child in list(_running):
        child.kill()


def _free_port() -> int:
    """For the store of ranks that run together: a port of this machine that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
