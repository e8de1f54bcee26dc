"""coopsim live run -- COMMAND: an unmodified training script inside a budget of memory, with the same numbers."""

import argparse
import json
from typing import Any

from coopsim import budget, text
from coopsim.types import CoopsimError

_KEYS = (
    *("budget_bytes", "steps", "planned_steps", "peak_allocated_bytes", "peak_reserved_bytes", "evictions"),
    *("recomputes", "deviations", "replans", "predicted_overhead", "policy", "unplanned", "deviated"),
)


def run(args: argparse.Namespace) -> int:
    from coopsim import policies
    from coopsim.phantom import profiles
    from coopsim.script import Script, guests

    command = tuple(args.command[1:] if args.command[:1] == ["--"] else args.command)
    if not command:
        raise CoopsimError("name the command to run after --, as in: coopsim live run --memory 8GiB -- python train.py")
    budget.parse(args.memory, 1 << 40, "--memory")
    policies.find(args.policy)
    if args.gpu is not None:
        profiles.get(args.gpu)
    script = Script(
        command,
        card=args.gpu or "",
        traceback=args.traceback,
        output=2 if args.json else None,
        guest="coopsim.live.guest",
        told=json.dumps({"memory": args.memory, "policy": args.policy}),
    )
    said = max(guests(script), key=lambda one: int(one["steps"]))
    failed = said["failed"]
    if args.json:
        print(json.dumps({"outcome": "oom" if failed else "ok"} | {key: said[key] for key in _KEYS}, indent=2))
    else:
        print(_text(said))
    if failed:
        raise _FailedError(failed, said["fits"])
    return 0


class _FailedError(CoopsimError):
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
