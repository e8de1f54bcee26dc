"""coopsim live run|plan -- COMMAND: an unmodified training script inside a budget of memory, with the same numbers."""

import argparse
import json
from typing import Any

from coopsim.base import budget, text
from coopsim.base.option import given
from coopsim.base.progress import note
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.cli.live_script import Failed, hosting_of, no_arena, said_by, script_of, times, wants_arena

_KEYS = (
    *("budget_bytes", "steps", "planned_steps", "peak_allocated_bytes", "peak_reserved_bytes", "evictions"),
    *("recomputes", "deviations", "replans", "device_calls", "predicted_overhead", "predicted_ns"),
    *("step_ns", "prices", "policy", "unplanned", "deviated", "no_arena"),
    *("offloads", "offloaded_bytes", "host_bytes", "no_offload", "needs_data", "loops_ended"),
)


def run(args: argparse.Namespace) -> int:
    if args.action == "plan":
        from coopsim.cli import live_plan

        return live_plan.run(args)
    from coopsim.live import plan_file

    if args.memory is None and args.plan is None:
        raise CoopsimError("give a budget, --memory 8GiB, or a plan of coopsim live plan, --plan F")
    if args.memory is not None:
        budget.parse(args.memory, 1 << 40, "--memory")
    told = {
        "memory": args.memory,
        "policy": args.policy,
        "plan": args.plan,
        "background": not (args.gpu or args.no_cache),
        "arena": (arena := has_arena(args)),
    }
    if not args.no_cache and args.plan is None:
        told |= own_plan(args, arena=arena)
    said = said_by(script_of(args, **told))
    failed = said["failed"]
    if failed and told["arena"] and not arena:
        plan_file.mark_steady(told["plan"])
    if failed and said["fits"]:
        raise Failed(failed, said["fits"])  # not for want of memory: there is nothing to report
    if args.json:
        print(json.dumps({"outcome": "oom" if failed else "ok"} | {key: said[key] for key in _KEYS}, indent=2))
    else:
        print(_text(said | {"by_plan": args.plan is not None}))
    if failed:
        raise Failed(failed, said["fits"])
    return 0


def own_plan(args: argparse.Namespace, *, arena: bool) -> dict[str, Any]:
    """Return what the script is told of the plans that are kept in the user's cache for it, of `live_script.script_of`.

    A note says what is taken from an earlier start: its plans, or that its steps were not steady, so that an arena is
    used.
    """
    from coopsim.fitting.saved import versions
    from coopsim.live import plan_file
    from coopsim.live.errors import LiveError

    options = given(RunOptions, args, "live")
    start = plan_file.Start(args.memory, args.policy, args.gpu, hosting_of(args), args.offload, arena, args.arena)
    file = plan_file.place(start, tuple(word for word in args.command if word != "--"), options, versions())
    told: dict[str, Any] = {"plan": str(file), "own": True}
    try:
        head = plan_file.load(file) if file.exists() else None
    except LiveError as why:
        note(f"{why}: planning anew")
        return told
    if head is None:
        return told
    in_bytes = {"memory": f"{head.budget_bytes}B"}  # an arena is made before the steps are known that a share is of
    if head.steady or head.arena:
        file.touch()
        note("following the plans of an earlier start of this script (--no-cache: plan anew)")
        return told | ({"arena": True} | in_bytes if head.arena else {})
    if args.arena is None and args.gpu and not no_arena():
        note(
            "in an earlier start, steps went on to take GPU memory and give it back: using an arena (--no-arena: none)"
        )
        return told | {"arena": True} | in_bytes
    return told


def has_arena(args: argparse.Namespace) -> bool:
    """Return whether to use an arena: by the flags, or, if they do not say, by the plan.

    Prints a note if the plan is for an arena and there is none.
    """
    if args.arena or args.plan is None:
        return wants_arena(args)
    from coopsim.live import plan_file

    if not plan_file.load(args.plan).arena:
        return False
    why = "--no-arena" if args.arena is False else no_arena()
    if why:
        note(f"{args.plan} is a plan for an arena, and there is none ({why}): steps may reserve more than the budget")
    return not why


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
    if said["predicted_ns"] and said["predicted_ns"]["plain_host"]:
        took = f"; measured: {said['step_ns'] / 1e6:.1f} ms" if said["step_ns"] else ""
        rows.insert(2, ("a step", times(said["predicted_ns"]) + took))
        rows.insert(3, ("prices", said["prices"]))
    if said["peak_reserved_bytes"]:
        rows.append(("peak reserved", human(said["peak_reserved_bytes"])))
    taken, limit = max(said["peak_allocated_bytes"], said["peak_reserved_bytes"] or 0), said["budget_bytes"]
    if limit and taken > limit:
        ask = "" if said.get("by_plan") else "; whether a plan keeps to it, `coopsim live plan` tells"
        rows.append(("over budget", f"by {human(taken - limit)}{ask}"))
    rows.append(("evicted", f"{said['evictions']} values; {said['recomputes']} ops were run again"))
    if said["host_bytes"]:
        moved = human(said["offloaded_bytes"])
        rows.append(("offloaded", f"{said['offloads']} values, {moved}; {human(said['host_bytes'])} of host memory"))
    if said["no_offload"]:
        rows.append(("no offload", said["no_offload"]))
    if said["deviations"]:
        rows.append(("left its plan", f"{said['deviations']} steps; the last: {said['deviated']}"))
    if said["replans"]:
        rows.append(("planned anew", f"{said['replans']} times, as steps took more than the budget or were not steady"))
    if said["device_calls"]:
        rows.append(("not steady", f"the last step took GPU memory or gave it back {said['device_calls']} times"))
    if said["no_arena"]:
        rows.append(("no arena", said["no_arena"]))
    if said["unplanned"] and not said["failed"]:
        rows.append(("no plan", said["unplanned"]))
    return text.listed(rows, 16)
