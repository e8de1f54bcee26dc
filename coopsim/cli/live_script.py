"""Run a training script with a plugin of `live`, for `coopsim live run` and `live plan`."""

import argparse
import importlib.util
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import alloc_conf, budget
from coopsim.base.errors import NoCudaTorchError
from coopsim.base.option import given
from coopsim.base.progress import note
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.cards import wheel
from coopsim.cli.common import command_of
from coopsim.run.records import EndedLoop, SizeFromData

if TYPE_CHECKING:
    from coopsim.live.host import Hosting
    from coopsim.run import Script


def script_of(args: argparse.Namespace, *, arena: bool, memory_bytes: int | None = None, **told: Any) -> "Script":
    """Return the script with its plugin, which is given `told` (live.guest.Request).

    memory_bytes: the card's memory, if not its own. Raises CoopsimError for bad options, and for a bad plan file.
    """
    from coopsim.cards import profiles
    from coopsim.live import schedules
    from coopsim.run import Script, memory

    command = command_of(args, f"live {args.action} --memory 8GiB")
    if importlib.util.find_spec("torch") is None:
        raise NoCudaTorchError(wheel.ABSENT)
    if args.gpu is None and args.action == "run":
        _says_without_gpu(command)
    schedules.recomputing(args.policy)
    if args.gpu is not None:
        profiles.get(args.gpu)
        if args.memory and not budget.is_share(args.memory):
            memory.no_more_than(args.gpu, budget.parse(args.memory, None, "--memory"), f"--memory {args.memory}")
    planned_bytes = 0
    if told.get("plan") and not told.get("own"):
        from coopsim.live import plan_file

        planned_bytes = plan_file.load(told["plan"]).budget_bytes  # raises before the script starts
        told["plan"] = os.path.abspath(told["plan"])
    told["arena_bytes"] = _arena_bytes(told, planned_bytes) if arena else None
    told["host_memory"] = _host_memory(args)
    told["offload"], told["hosting"] = args.offload, asdict(hosting) if (hosting := hosting_of(args)) else None
    script = Script(command)
    if args.masks and not args.gpu:
        raise CoopsimError("--masks is of the phantom GPU (--gpu CARD); this machine's devices compute what masks keep")
    return Script(
        command,
        card=args.gpu or "",
        memory_bytes=memory_bytes,
        **given(RunOptions, args, "live"),
        traceback=args.traceback,
        output=2 if args.json else None,
        variables=() if memory_bytes else alloc_conf.of_live(),
        plugin="coopsim.live.guest",
        told=json.dumps(told | {"command": script.title}),
    )


def _says_without_gpu(command: tuple[str, ...]) -> None:
    """Raise CoopsimError if a script asks for a GPU and there is none here; if it may do without, print a note."""
    if a_gpu_is_here():
        return
    file = next((Path(word) for word in command if word.endswith(".py") and Path(word).is_file()), None)
    text = file.read_text(encoding="utf-8", errors="replace") if file else ""
    named = "name a card: --gpu rtx-3060"
    may_do_without = "is_available" in text or "cpu" in " ".join((text, *command)).lower()
    if _CUDA.search(text) and not may_do_without:
        raise CoopsimError(f"there is no GPU here, and {file} asks for one; to try it without, {named}")
    if "is_available" in text or _LIBRARIES.search(text):
        note(f"there is no GPU here: the script runs on the CPU, if it can; to try it as on a card, {named}")


def a_gpu_is_here() -> bool:
    """Return whether this machine has a GPU, by its driver's files."""
    return any(Path(device).exists() for device in _DEVICES)


#: Files of the drivers of NVIDIA and AMD, and of Windows' in WSL.
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_CUDA = re.compile(r"""\.cuda\(|["']cuda(:\d+)?["']""")
_LIBRARIES = re.compile(r"^\s*(import|from) +(transformers|trl|lightning|pytorch_lightning|accelerate)\b", re.M)


def hosting_of(args: argparse.Namespace) -> "Hosting | None":
    """Return what the flags let plans use of the host; None: nothing, or what the plan says. Raises CoopsimError."""
    from coopsim.live import host

    if not args.offload:
        if args.link:
            raise CoopsimError("--link is for --offload")
        return None
    host.check(args.policy)
    return host.Hosting(args.link or "", _host_memory(args))


def _host_memory(args: argparse.Namespace) -> int | None:
    return budget.parse(args.host_memory, None, "--host-memory") if args.host_memory else None


def times(ns: dict[str, int]) -> str:
    """Return one line with the predicted times of a step on the GPU and on the host, as it is and by a plan."""
    ms = {name: f"{time / 1e6:.1f}" for name, time in ns.items()}
    gpu, by_host = f"{ms['plain_gpu']} → {ms['planned_gpu']}", f"{ms['plain_host']} → {ms['planned_host']}"
    return f"GPU {gpu} ms, host {by_host} ms (a model)"


def _arena_bytes(told: dict[str, Any], planned_bytes: int) -> int:
    """Return the size of the arena: the budget, or else the plan's; 0 means all free memory."""
    return budget.parse(told["memory"], None, "--memory") if told.get("memory") else planned_bytes


def wants_arena(args: argparse.Namespace) -> bool:
    """Return whether the flags ask for an arena. Raises CoopsimError if they do, and it is not possible."""
    if args.arena and args.memory and budget.is_share(args.memory):
        raise CoopsimError(f"--arena: {args.memory} is not known beforehand; give --memory an amount, such as 8GiB")
    if args.arena and (why := no_arena()):
        raise CoopsimError(f"--arena: {why}")
    return bool(args.arena)


def no_arena() -> str:
    """Return why an arena cannot be compiled on this machine; "" if it can."""
    from coopsim.phantom import compilers

    torch = wheel.find_any()
    have = compilers.find("CXX") or any(compilers.folder(torch.version, torch.cuda).glob("arena-*"))
    return "" if have else compilers.missing("CXX")


def said_by(script: "Script") -> dict[str, Any]:
    """Run the script, and return the plugin's report of the process that took most steps."""
    from coopsim.run import plugin_reports

    said = max(plugin_reports(script), key=lambda one: int(one["steps"]))
    new = {key: [one for one in said[key] if one["place"] not in _told] for key in ("needs_data", "loops_ended")}
    _told.update(one["place"] for found in new.values() for one in found)
    for need in new["needs_data"]:
        note(SizeFromData(**need).caution(script.masks or "all"))
    for loop in new["loops_ended"]:
        note(EndedLoop(**loop).caution)
    return said


_told: set[str] = set()  #: lines of scripts of which there was a caution, as a plan takes many runs


class Failed(CoopsimError):  # noqa: N818 (of the script, not of ours)
    """The script was ended, because memory ran out or because live cannot follow it."""

    def __init__(self, why: str, fits: bool) -> None:
        super().__init__(why)
        self.exit_code = 2 if fits else 3
