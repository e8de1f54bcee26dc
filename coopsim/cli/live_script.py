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


def script_of(args: argparse.Namespace, *, memory_bytes: int | None = None, **told: Any) -> "Script":
    """The script, with what its guest is told (live.guest.Told). memory_bytes: of the card, if not what it has."""
    from coopsim import policies
    from coopsim.phantom import profiles
    from coopsim.script import Script, memory

    command = command_of(args, f"live {args.action} --memory 8GiB")
    policies.find(args.policy)
    if args.gpu is not None:
        profiles.get(args.gpu)
        if args.memory and not args.memory.strip().endswith("%"):
            memory.no_more_than(args.gpu, budget.parse(args.memory, None, "--memory"), f"--memory {args.memory}")
    if told.get("plan"):
        from coopsim.live import plan_file

        plan_file.load(told["plan"])  # else the script would have to start to find that it is none
        told["plan"] = os.path.abspath(told["plan"])
    told["arena_bytes"] = _arena_bytes(args, told)
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


def _arena_bytes(args: argparse.Namespace, told: dict[str, Any]) -> int | None:
    """Of the arena; 0: all that is free, as steps are recorded; None: there is to be none. told: live.guest.Told."""
    share = (told.get("memory") or "").strip().endswith("%")
    if args.arena and share:
        raise CoopsimError(f"--arena: {args.memory} is not known beforehand; give --memory an amount, such as 8GiB")
    if share or not has_arena(args):
        return None
    if told.get("memory"):
        return budget.parse(told["memory"], None, "--memory")
    if told.get("plan"):
        from coopsim.live import plan_file

        return plan_file.load(told["plan"]).header.budget_bytes
    return 0


def has_arena(args: argparse.Namespace) -> bool:
    """Is there to be an arena? CoopsimError if it was asked for and cannot be compiled."""
    from coopsim.phantom import compilers

    if args.arena and compilers.find("CXX") is None:
        raise CoopsimError(f"--arena: {compilers.missing('CXX')}")
    return bool(args.arena)


def said_by(script: "Script") -> dict[str, Any]:
    """The report of the process that trained."""
    from coopsim.script import guests

    return max(guests(script), key=lambda one: int(one["steps"]))


class Failed(CoopsimError):  # noqa: N818 (of the script, not of ours)
    """The script was ended: memory ran out, or it does what cannot be followed."""

    def __init__(self, why: str, fits: bool) -> None:
        super().__init__(why)
        self.exit_code = 2 if fits else 3
