"""coopsim live run|plan -- COMMAND: an unmodified training script inside a budget of memory, with the same numbers."""

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from coopsim import budget, text
from coopsim.live import settings
from coopsim.types import CoopsimError

if TYPE_CHECKING:
    from coopsim.script import Script

_KEYS = (
    *("budget_bytes", "steps", "planned_steps", "peak_allocated_bytes", "peak_reserved_bytes", "evictions"),
    *("recomputes", "deviations", "replans", "predicted_overhead", "policy", "unplanned", "deviated"),
)


def run(args: argparse.Namespace) -> int:
    if args.action == "plan":
        from coopsim.cli import live_plan

        return live_plan.run(args)
    if args.memory is None and args.plan is None:
        raise CoopsimError("give a budget, --memory 8GiB, or a plan of coopsim live plan, --plan F")
    if args.memory is not None:
        budget.parse(args.memory, 1 << 40, "--memory")
    said = said_by(script_of(args, memory=args.memory, policy=args.policy, plan=args.plan))
    failed = said["failed"]
    if args.json:
        print(json.dumps({"outcome": "oom" if failed else "ok"} | {key: said[key] for key in _KEYS}, indent=2))
    else:
        print(_text(said))
    if failed:
        raise Failed(failed, said["fits"])
    return 0


def script_of(args: argparse.Namespace, *, memory_bytes: int | None = None, **told: Any) -> "Script":
    """The script, with what its guest is told (live.guest.Told). memory_bytes: of the card, if not what it has."""
    from coopsim import policies
    from coopsim.phantom import profiles
    from coopsim.script import Script

    command = tuple(args.command[1:] if args.command[:1] == ["--"] else args.command)
    if not command:
        raise CoopsimError(
            f"name the command to run after --, as in: coopsim live {args.action} --memory 8GiB -- python train.py"
        )
    policies.find(args.policy)
    if args.gpu is not None:
        profiles.get(args.gpu)
    if told.get("plan"):
        from coopsim.live import plan_file

        plan_file.load(told["plan"])  # else the script would have to start to find that it is none
        told["plan"] = os.path.abspath(told["plan"])
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


def said_by(script: "Script") -> dict[str, Any]:
    """The report of the process that trained."""
    from coopsim.script import guests

    return max(guests(script), key=lambda one: int(one["steps"]))


class Failed(CoopsimError):  # noqa: N818 (of the script, not of ours)
    """The script was ended: memory ran out, or it does what cannot be followed."""

    def __init__(self, why: str, fits: bool) -> None:
        super().__init__(why)
        self.exit_code = 2 if fits else 3


def _text(said: dict[str, Any]) -> str:
    human = text.human
    overhead = said["predicted_overhead"]
    planned = f"{said['planned_steps']} by plan"
    if overhead is not None:
        planned += f", with a predicted overhead of {overhead - 1:.1%}"
    rows = [
        ("budget", human(said["budget_bytes"]) if said["budget_bytes"] else "not known before a step has run"),
        ("steps", f"{said['steps']}, {planned} ({said['policy']})"),
        ("peak allocated", human(said["peak_allocated_bytes"])),
    ]
    if said["peak_reserved_bytes"]:
        rows.append(("peak reserved", human(said["peak_reserved_bytes"])))
    rows.append(("evicted", f"{said['evictions']} values; {said['recomputes']} ops were run again"))
    if said["deviations"]:
        rows.append(("left its plan", f"{said['deviations']} steps; the last: {said['deviated']}"))
    if said["replans"]:
        rows.append(("planned anew", f"{said['replans']} times, as a step took more than the budget"))
    if said["unplanned"] and not said["failed"]:
        rows.append(("no plan", said["unplanned"]))
    return "\n".join(f"{name:<16}{value}" for name, value in rows)
