"""Launch the ranks of a job on the phantom GPU, or those of them that are to run, and collect their reports.

A rank is one process of the job, on a card of its own; a job (world.World) may be a pipeline, each rank with a stage.
"""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from coopsim.base.errors import CaptureError
from coopsim.run.launch.start import RanProgram, Running, outputs, reports, say, variables
from coopsim.run.ranks import launcher, world
from coopsim.run.script import Script
from coopsim.run.task import NEEDS_OTHERS, Task

#: Variable with the folder through which ranks exchange messages (phantom/csrc/nccl_peers.c).
PEERS = "COOPSIM_PHANTOM_PEERS"
#: Approximate host memory of a rank's process: Python, PyTorch and its libraries (docs/many-ranks.md).
_HOST_GIB = 0.6
_POLL_S = 0.05
#: Time after the first failure of ranks that need each other, in which others may fail for reasons of their own.
_GRACE_S = 5.0
#: A pipeline of at most so many ranks is run unasked.
FEW = 8
#: NCCL's watchdogs run by the phantom's clock (phantom/csrc/watchdog.c); PyTorch's monitor would take them for hung.
_DEFAULTS = {"TORCH_NCCL_ENABLE_MONITORING": "0"}
#: Bytes of a card that a communicator of NCCL takes, outside PyTorch's allocator, of two ranks and of more. Published:
#: on 4 A100, 544 MB and 688 MB (NVIDIA/nccl issue 964); on 8 H100, 1.06 GB, and 4.34 GB after the first all-to-all
#: (issue 1685). NCCL has buffers per channel and protocol, so the amount depends on the machine's links and on
#: NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS and similar variables.
_OF_TWO, _OF_MORE = 544_000_000, 688_000_000


@dataclass
class Process:
    """A command to run, and its environment. `code` is its exit code; None if it was killed with the others."""

    words: list[str]
    variables: dict[str, str]
    stdout: int | IO[bytes] | None = None
    stderr: int | IO[bytes] | None = None
    code: int | None = field(default=None, init=False)


def needs(ranks: int, *, together: bool) -> str:
    """Return, in words, how much host memory and processor time it takes to run `ranks` ranks.

    `together`: all at once; else as many as there are processors.
    """
    at_once = _at_once(ranks, together=together)
    return (
        f"{ranks} ranks, {at_once} at once: about {_HOST_GIB * at_once:.1f} GiB of host memory, and {ranks} times one "
        f"rank's processor time on {os.cpu_count()} processors"
    )


def run_all(processes: Sequence[Process], running: Running, *, together: bool) -> None:
    """Run processes until all have ended, as many at once as there are processors, and set their exit codes.

    `together`: they need each other, so all run at once, and if one fails, all are killed some seconds later. Each is
    added to `running` when it starts.
    """
    at_once = _at_once(len(processes), together=together)
    children: dict[int, subprocess.Popen[bytes]] = {}
    waiting = list(range(len(processes)))
    deadline = None
    with _ended(children, running):
        while waiting or children:
            while waiting and len(children) < at_once:
                child = _start(processes[waiting[0]])
                running.add(child, leads_group=True)
                children[waiting[0]] = child
                del waiting[0]
            for i, child in list(children.items()):
                if child.poll() is None:
                    continue
                running.end(children.pop(i))
                processes[i].code = child.returncode
                if child.returncode and together and deadline is None:
                    deadline = time.monotonic() + _GRACE_S
            if deadline is not None and time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)


def _at_once(ranks: int, *, together: bool) -> int:
    return ranks if together else min(ranks, os.cpu_count() or 1)


def _start(process: Process) -> "subprocess.Popen[bytes]":
    """Start a process in a process group of its own, so that its children can be killed with it."""
    return subprocess.Popen(  # noqa: S603
        process.words,
        env=process.variables,
        stdin=subprocess.DEVNULL,
        stdout=process.stdout,
        stderr=process.stderr,
        process_group=0,
    )


@contextlib.contextmanager
def _ended(children: dict[int, "subprocess.Popen[bytes]"], running: Running) -> Iterator[None]:
    try:
        yield
    finally:
        for child in children.values():
            running.end(child)


def run(
    script: Script, task: Task, launch: launcher.Launch, job: world.World, running: Running
) -> tuple[world.World, list[RanProgram]]:
    """Run the ranks that `run.ranks` names; return the job, with those that ran in `run`, and how each ended.

    `launch` is the command of the ranks, `running` receives their processes.

    If it names none and the job turns out to be a pipeline, whose ranks need each other, all ranks are run. Raises
    CaptureError if it names some, or the pipeline has more than FEW ranks.
    """
    job = job.running(script.ranks)
    ran = _run(script, task, launch, job, running)
    if ran is not None:
        return job, ran
    if script.ranks is not None or job.size > FEW:
        many = "" if script.ranks is not None else f", which are {job.size}"
        raise CaptureError(f"{script.title} is a pipeline, whose ranks need each other{many}: --ranks all")
    say(script, "a pipeline, whose ranks differ and need each other: all of them are run")
    job = job.running("all")
    return job, _run(script, task, launch, job, running) or []


def _run(
    script: Script, task: Task, launch: launcher.Launch, job: world.World, running: Running
) -> list[RanProgram] | None:
    """Run the ranks `job.run`, and return their ends; None if a rank ran alone and cannot, as a stage of a pipeline."""
    task = replace(task, ranks="together" if job.together else "alone")
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        shared = nccl_variables(script.nccl_bytes) | ({PEERS: folder} if task.ranks == "together" else {})
        folders = {rank: str(Path(folder, str(rank))) for rank in job.run}
        port, started = _free_port(), []
        for rank, own in folders.items():
            Path(own).mkdir()
            mine = replace(task, rank=rank, world=job.size)
            mine = replace(
                mine,
                snapshot=task.snapshot and of_rank(task.snapshot, rank),
                requests=task.requests and of_rank(task.requests, rank),
                step_requests=task.step_requests and of_rank(task.step_requests, rank),
            )
            mine = mine if rank == job.run[0] else replace(mine, trace="")
            environment = _DEFAULTS | launch.variables | variables(script, mine, own, devices=job.devices)
            environment |= job.variables(rank, port) | shared | {"COOPSIM_PHANTOM_PER_NODE": str(job.per_node)}
            started.append(Process(launch.words(rank), environment, *outputs(script)))
        if len(started) > 1:
            say(script, needs(len(started), together=job.together))
        run_all(started, running, together=job.together)
        if any(Path(own, NEEDS_OTHERS).exists() for own in folders.values()):
            return None
        ended = [(rank, one.code) for rank, one in zip(job.run, started, strict=True) if one.code is not None]
        return [RanProgram(rank, code, reports(folders[rank])) for rank, code in ended]


def of_rank(file: str, rank: int) -> str:
    """Return the file to which a rank of a job writes what the task wants in `file`."""
    return f"{file}.{rank}"


def nccl_variables(nbytes: int | None) -> dict[str, str]:
    """Return the environment variables by which the phantom's NCCL takes `nbytes` of a card per communicator.

    None means the amounts published for 4 A100: 544 MB for two ranks, 688 MB for more.
    """
    of_two, of_more = (_OF_TWO, _OF_MORE) if nbytes is None else (nbytes, nbytes)
    return {"COOPSIM_PHANTOM_NCCL_2": str(of_two), "COOPSIM_PHANTOM_NCCL": str(of_more)}


def _free_port() -> int:
    """Return a free port of this machine, for the store of ranks that run together."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
