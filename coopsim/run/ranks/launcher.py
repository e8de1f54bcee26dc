"""Find out what a launcher starts: torchrun, python -m torch.distributed.run, accelerate launch, mp.spawn.

The launcher itself runs, so that all its options, variables and files have their effect, up to the point where it would
start its workers. There it writes what it would have started to a file, and exits.
"""

import contextlib
import itertools
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from coopsim.base.errors import CaptureError
from coopsim.record.observe.private import hooked
from coopsim.run.ranks.world import PER_NODE, World

_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_FOREIGN = ("deepspeed", "mpirun", "mpiexec", "srun")
_PROCESSES = re.compile(r"__num_processes[ =](\d+)")
_FILE = "launch"
_LOCAL_RANK = "${local_rank}"
API = "torch.distributed.launcher.api"
SPAWN = "torch.multiprocessing.spawn"


@dataclass(frozen=True)
class Launch:
    """What a launcher would start: a command, as `per_node` processes, the ranks, on each of `nodes` machines.

    `virtual`: each process sees its own card only. `variables`: those that the launcher sets in the environment.
    """

    command: list[str]
    nodes: int
    per_node: int
    virtual: bool
    variables: dict[str, str]

    @classmethod
    def of(cls, command: list[str], job: World) -> "Launch":
        """Return the launch of a command as the ranks of `job`, without a launcher: no variables are set."""
        return cls(command, job.size // job.per_node, job.per_node, job.virtual, {})

    @property
    def world(self) -> World:
        """The job that would be started, of which rank 0 is to run."""
        return World(self.nodes * self.per_node, self.per_node, virtual=self.virtual)

    def words(self, rank: int) -> list[str]:
        """Return the command of one rank, with its local rank (its number on its machine) for ${local_rank}."""
        return [word.replace(_LOCAL_RANK, str(rank % self.per_node)) for word in self.command]


def check(command: Sequence[str]) -> None:
    """Raise CaptureError if the command is deepspeed, mpirun, mpiexec or srun, launchers that are not supported."""
    name = Path(command[0]).name
    if name in _FOREIGN:
        raise CaptureError(f"{name} is not understood as a launcher; use torchrun, or name the script and --world N")


def is_one(command: Sequence[str]) -> bool:
    """Return whether a command, whose first word is a Python, starts a launcher's module by -m as its second word.

    The modules are torch.distributed.run, torch.distributed.launch and accelerate.commands.launch.
    """
    return len(command) > 2 and command[1] == "-m" and command[2] in _MODULES


def devices(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Return the number of cards that a command is to find on its machine, by CUDA_VISIBLE_DEVICES and its words.

    CUDA_VISIBLE_DEVICES in `variables` holds. Else it is 1, or PER_NODE (8) for a launcher of several processes:
    `torchrun --nproc-per-node gpu` takes all cards that it finds, and accelerate must find several before it starts
    several processes, but starts one per card that it finds unless it is told how many. Raises CaptureError if
    CUDA_VISIBLE_DEVICES hides all cards.
    """
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        shown = list(itertools.takewhile(lambda one: one not in ("", "-1"), visible.replace(" ", "").split(",")))
        if not shown:
            raise CaptureError(f"CUDA_VISIBLE_DEVICES={visible} hides all cards; unset it, or name some: 0,1")
        return len(shown)
    words = " ".join(command).replace("-", "_")
    if "torchrun" in words or "torch.distributed" in words:
        return PER_NODE
    asked = _PROCESSES.search(words)
    return PER_NODE if "__multi_gpu" in words or (asked is not None and int(asked[1]) > 1) else 1


def with_ranks(command: Sequence[str], nodes: int, per_node: int) -> tuple[str, ...] | None:
    """Return a launcher's command, told to start `per_node` ranks on each of `nodes` machines; None if it is none.

    >>> with_ranks(("torchrun", "--standalone", "--nproc-per-node", "4", "a.py", "--nnodes=1"), 2, 8)
    ('torchrun', '--nnodes=2', '--nproc-per-node', '8', 'a.py', '--nnodes=1')
    >>> with_ranks(("accelerate", "launch", "--num_processes=2", "a.py"), 1, 4)
    ('accelerate', 'launch', '--num_processes=4', 'a.py')
    """
    words = list(command)
    if Path(words[0]).name == "torchrun":
        first = 1
    elif is_one(words):
        first = 3
    elif Path(words[0]).name == "accelerate" and words[1:2] == ["launch"]:
        first = 2
    else:
        return None
    if first == 2 or words[first - 1] == "accelerate.commands.launch":
        wanted = {"--num_processes": nodes * per_node, "--num_machines": nodes}
    else:
        wanted = {"--nproc-per-node": per_node, "--nnodes": nodes}
    last = next(
        (i for i, word in enumerate(words) if i >= first and (word.endswith(".py") or word == "-m")), len(words)
    )
    own = [word for word in words[first:last] if nodes == 1 or word != "--standalone"]
    for option, number in wanted.items():
        name = option.replace("-", "_")
        at = next((i for i, word in enumerate(own) if word.partition("=")[0].replace("-", "_") == name), None)
        if at is not None and "=" in own[at]:
            own[at] = f"{own[at].partition('=')[0]}={number}"
        elif at is not None:
            own[at + 1 : at + 2] = [str(number)]
        elif number > 1:
            own.insert(0, f"{option}={number}")
    return (*words[:first], *own, *words[last:])


def read(folder: str, given: Mapping[str, str]) -> Launch | None:
    """Return what a launcher wrote to `folder`; None if the command started no workers.

    `given` is the environment that it was started with. Raises CaptureError for a launch that is not supported.
    """
    file = Path(folder, _FILE)
    if not file.exists():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    if found["refused"]:
        raise CaptureError(found["refused"])
    variables = {key: value for key, value in found["variables"].items() if given.get(key) != value}
    return Launch(**found["launch"] | {"variables": variables})


def stop_before_workers(api: ModuleType, folder: str) -> None:
    """Make the launcher in this process write what it would start to `folder` (for `read`) and exit with code 0.

    It starts no workers. `api` is the module torch.distributed.launcher.api, just imported.
    """

    def instead(self: Any, *words: Any) -> None:
        config, entrypoint = self._config, self._entrypoint
        logs = Path(getattr(config.logs_specs, "root_log_dir", None) or "")
        if logs.name.startswith("torchelastic_"):  # made for the workers' logs, in the folder for temporary files
            with contextlib.suppress(OSError):
                logs.rmdir()
        refused = ""
        if not isinstance(entrypoint, str):
            refused = "the launcher runs a function; let it start a command: without --run-path, or not from Python"
        elif config.min_nodes != config.max_nodes:
            refused = f"--nnodes {config.min_nodes}:{config.max_nodes}: say one number of machines"
        launch = Launch(
            command=[str(entrypoint), *map(str, words)],
            nodes=config.max_nodes,
            per_node=config.nproc_per_node,
            virtual=bool(getattr(config, "virtual_local_rank", False)),
            variables={},
        )
        _write(folder, launch, refused)
        sys.exit(0)

    api.elastic_launch.__call__ = instead


def stop_before_spawn(spawn: ModuleType, folder: str) -> None:
    """Make torch.multiprocessing.spawn, just imported, write the ranks that it would start to `folder`, and exit.

    Where the script finds several cards, a single process is started as it is.
    """

    def instead(original: Any, fn: Any, args: Any = (), nprocs: int = 1, *rest: Any, **named: Any) -> Any:
        if nprocs == 1 and int(os.environ.get("COOPSIM_PHANTOM_DEVICES", "2")) > 1:
            return original(fn, args, nprocs, *rest, **named)
        _write(folder, Launch(sys.orig_argv, 1, nprocs, virtual=False, variables={}), "")
        sys.exit(0)

    spawn.start_processes = hooked(spawn.start_processes, instead)  # type: ignore[attr-defined]


def run_what_is_spawned(spawn: ModuleType) -> None:
    """Make torch.multiprocessing.spawn, just imported, call the function in this process, which is a rank of its job.

    The number that it is called with is LOCAL_RANK.
    """

    def instead(fn: Any, args: tuple[Any, ...] = (), *_: Any, **__: Any) -> Any:
        fn(int(os.environ["LOCAL_RANK"]), *args)
        return SimpleNamespace(join=lambda *_: True, processes=[], pids=list)

    spawn.start_processes = instead  # type: ignore[attr-defined]


def _write(folder: str, launch: Launch, refused: str) -> None:
    found = {"refused": refused, "launch": asdict(launch), "variables": dict(os.environ)}
    part = os.path.join(folder, f".{_FILE}")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.rename(part, os.path.join(folder, _FILE))
