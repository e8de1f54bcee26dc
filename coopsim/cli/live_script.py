"""What `coopsim live run` and `live plan` share: the script that trains, and what comes back from it."""

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from coopsim import budget
from coopsim.cli.common import command_of
from coopsim.live import settings
from coopsim.types import CoopsimError

if TYPE_CHECKING:
    from coopsim.script import Script


def script_of(args: argparse.Namespace, *, arena: bool, memory_bytes: int | None = None, **told: Any) -> "Script":
    """The script, with what its guest is told (live.guest.Request). memory_bytes: of the card, if not what it has."""
    from coopsim.live import schedules
    from coopsim.phantom import profiles
    from coopsim.script import Script, memory

    command = command_of(args, f"live {args.action} --memory 8GiB")
    schedules.recomputing(args.policy)
    if args.gpu is not None:
        profiles.get(args.gpu)
        if args.memory and not args.memory.strip().endswith("%"):
            memory.no_more_than(args.gpu, budget.parse(args.memory, None, "--memory"), f"--memory {args.memory}")
    planned_bytes = 0
    if told.get("plan"):
        from coopsim.live import plan_file

        planned_bytes = plan_file.load(told["plan"]).header.budget_bytes  # if it is none, the script does not start
        told["plan"] = os.path.abspath(told["plan"])
    told["arena_bytes"] = _arena_bytes(told, planned_bytes) if arena else None
    script = Script(command)
    return Script(
        command,
        card=args.gpu or "",
        memory_bytes=memory_bytes,
        traceback=args.traceback,
        output=2 if args.json else None,
        variables=() if memory_bytes else settings.variables(),
        guest="coopsim.live.guest",
        told=json.dumps(told | {"command": script.title}),
    )


def _arena_bytes(told: dict[str, Any], planned_bytes: int) -> int:
    """Of the arena: the budget, if not said the plan's; 0: all that is free. told: live.guest.Request."""
    return budget.parse(told["memory"], None, "--memory") if told.get("memory") else planned_bytes


def wants_arena(args: argparse.Namespace) -> bool:
    """Do the flags ask for an arena? CoopsimError if they do, and it cannot be had."""
    if args.arena and args.memory and args.memory.strip().endswith("%"):
        raise CoopsimError(f"--arena: {args.memory} is not known beforehand; give --memory an amount, such as 8GiB")
    if args.arena and (why := no_arena()):
        raise CoopsimError(f"--arena: {why}")
    return bool(args.arena)


def no_arena() -> str:
    """Why this machine can compile none; "" if it can."""
    from coopsim.phantom import compilers

    return "" if compilers.find("CXX") else compilers.missing("CXX")


def said_by(script: "Script") -> dict[str, Any]:
    """The report of the process that trained."""
    from coopsim.script import guests

    return max(guests(script), key=lambda one: int(one["steps"]))


class Failed(CoopsimError):  # noqa: N818 (of the script, not of ours)
    """The script was ended: memory ran out, or it does what cannot be followed."""

    def __init__(self, why: str, fits: bool) -> None:
        super().__init__(why)
        self.exit_code = 2 if fits else 3
