"""coopsim live plan -o F -- COMMAND: plan a script's steps in a memory budget, without a GPU."""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import budget, files
from coopsim.base.progress import note
from coopsim.base.text import human, listed
from coopsim.cli.live_script import Failed, hosting_of, no_arena, said_by, script_of, times, wants_arena

if TYPE_CHECKING:
    from coopsim.live.make import Made
    from coopsim.live.plan_file import PlanFile

_RUNS = 6  #: at most so many runs, after each of which the plan is corrected
_NO_ROOM = 3  #: exit code if the steps do not fit


def run(args: argparse.Namespace) -> int:
    limit = budget.parse(args.memory, None, "--memory")
    files.target(args.output)
    found, failed = found_by(args, limit)
    print(json.dumps(found, indent=2) if args.json else _text(found))
    if failed is not None:
        raise failed
    return 0 if found["fits"] else _NO_ROOM


def found_by(args: argparse.Namespace, limit: int) -> tuple[dict[str, Any], "Failed | None"]:
    """Record the script's steps, and return as `planned` does; in an arena where PyTorch's allocator does not do."""
    steps = _recorded(args, arena=wants_arena(args))
    found, failed = planned(args, steps, limit)
    can = args.arena is None and steps.device == "cuda" and not no_arena()
    if can and (why := _lacks_addresses(found, failed) or _unsteady(found)):
        note(f"{why}: planning for an arena")
        found, failed = _in_arena(args, limit) or (found, failed)
    return found, failed


def _recorded(args: argparse.Namespace, *, arena: bool) -> "PlanFile":
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        steps = recorded(args, str(Path(folder, "recorded")), arena=arena)
    note(f"planning {len(steps.signatures)} signatures of step")
    return steps


def _in_arena(args: argparse.Namespace, limit: int) -> "tuple[dict[str, Any], Failed | None] | None":
    """Plan for an arena and return as `planned` does; None, after a note that says why, if that does not fit either."""
    try:
        found, failed = planned(args, _recorded(args, arena=True), limit)
    except Failed as failed_there:
        note(f"in an arena the script fails: {failed_there}")
        return None
    if found["fits"]:
        return found, failed
    note(f"nor do the steps fit in an arena: {failed or _taken(found) or 'there is no plan'}")
    return None


def _lacks_addresses(found: dict[str, Any], failed: "Failed | None") -> str:
    """Return why the steps fail with PyTorch's caching allocator although the plans' bytes fit; "" if they do not."""
    why = str(failed) if failed is not None and failed.exit_code == _NO_ROOM else _taken(found)
    return f"PyTorch's caching allocator finds no addresses ({why})" if why else ""


def _unsteady(found: dict[str, Any]) -> str:
    """Say how often steps call the driver for memory, if replanning the plan did not end that; else ""."""
    calls = found["device_calls"]
    return f"by this plan each step takes GPU memory and gives it back {calls} times" if calls else ""


def _taken(found: dict[str, Any]) -> str:
    """Say how much was reserved, if that was more than the budget; else ""."""
    taken, limit = found["peak_reserved_bytes"] or 0, found["budget_bytes"]
    return f"{human(taken)} of {human(limit)} are reserved" if taken > limit else ""


def planned(args: argparse.Namespace, steps: "PlanFile", limit: int) -> tuple[dict[str, Any], "Failed | None"]:
    """Plan these steps, try the plan, and write it if it fits; return what --json prints, and how the script failed.

    The plan is for an arena if the steps were recorded in one. The second value is None if the script did not fail.
    """
    from coopsim.live import make, plan_file

    hosting, arena = hosting_of(args), steps.arena
    steps = replace(steps, budget_bytes=limit, hosting=hosting)
    how: dict[str, Any] = {"arena": arena, "hosting": hosting, "on_gpu": steps.device == "cuda"}
    made = [make.make(signature, steps.policy, limit, steps.others_bytes, **how) for signature in steps.signatures]
    has_plans = any(m.signature.state.schedule is not None for m in made if not m.signature.first)
    if not has_plans or any(m.least.nbytes > limit for m in made):
        return _found(args, limit, made, None, arena=arena), None
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        path, replanned = str(Path(folder, "plan")), str(Path(folder, "replanned"))
        plan_file.save(replace(steps, signatures=[m.signature for m in made]), path)
        for _ in range(_RUNS):
            note("trying the plan")
            said = said_by(
                script_of(args, arena=arena, policy=args.policy, plan=path, save=replanned, steps=args.steps)
            )
            if said["failed"]:
                return _found(args, limit, made, said, arena=arena), Failed(said["failed"], said["fits"])
            tried = plan_file.load(replanned)
            made = [replace(m, signature=signature) for m, signature in zip(made, tried.signatures, strict=False)]
            plan_file.save(tried, path)
            if not said["replans"]:
                break
        found = _found(args, limit, made, said, arena=arena)
        if found["fits"]:
            plan_file.save(tried, args.output)
        return found, None


def recorded(args: argparse.Namespace, path: str, *, arena: bool) -> "PlanFile":
    """Record the script's steps with unlimited memory, and return them as a plan file without schedules."""
    from coopsim.live import plan_file
    from coopsim.live.errors import LiveError
    from coopsim.run import memory

    endless = memory.ENDLESS if args.gpu else None
    script = script_of(args, arena=arena, memory_bytes=endless, policy=args.policy, save=path, steps=args.steps)
    said = said_by(script)
    if said["failed"]:
        raise Failed(said["failed"], said["fits"])
    if not Path(path).exists():
        raise LiveError(f"{script.title} took no step: a step is what lies between calls of Optimizer.step")
    if said["no_arena"]:
        note(f"no arena: {said['no_arena']}")
    return plan_file.load(path)


def _found(
    args: argparse.Namespace, limit: int, made: "list[Made]", said: dict[str, Any] | None, *, arena: bool
) -> dict[str, Any]:
    """Return what --json prints. Overall figures are those of the step signature that needs most, or costs most.

    `said` is the report of the run that followed the plan, None without one. The plan fits if that run took no more
    than the budget.
    """
    signatures = [_kind(m) for m in made]
    steady = [k for k in signatures if not k["first"]] or signatures
    least = [k["least_planned_bytes"] for k in signatures]
    ran = said if said is not None and not said["failed"] else {}
    taken = [ran.get(f"peak_{what}_bytes") for what in ("allocated", "reserved")]
    fits = bool(ran) and max(int(n or 0) for n in taken) <= limit
    return {
        "outcome": "ok" if fits else "oom",
        "fits": fits,
        "budget_bytes": limit,
        "policy": args.policy,
        "arena": arena,
        "plan": args.output if fits else None,
        "predicted_overhead": max((k["predicted_overhead"] or 0.0 for k in steady), default=0.0) or None,
        "peak_without_eviction_bytes": max(k["peak_bytes"] for k in signatures),
        "lower_bound_bytes": max(k["lower_bound_bytes"] for k in signatures),
        "least_planned_bytes": None if None in least else max(least),
        "peak_allocated_bytes": taken[0],
        "peak_reserved_bytes": taken[1],
        "device_calls": ran.get("device_calls", 0),
        "host_bytes": ran.get("host_bytes", 0),
        "no_offload": ran.get("no_offload", ""),
        "kinds": signatures,
    }


def _kind(m: "Made") -> dict[str, Any]:
    return {
        "first": m.signature.first,
        "ops": m.signature.trace.n_ops,
        "peak_bytes": m.peak_bytes,
        "planned": m.signature.state.schedule is not None,
        "predicted_overhead": m.time.overhead if m.time else None,
        "predicted_ns": m.time.row() if m.time else None,
        "unplanned": m.signature.state.why,
        "lower_bound_bytes": m.least.nbytes,
        "lower_bound_op": m.least.op,
        "lower_bound_by_role": m.least.held,
        "least_planned_bytes": m.least_planned_bytes,
    }


def _text(found: dict[str, Any]) -> str:
    most = max(found["kinds"], key=lambda k: k["lower_bound_bytes"])
    held = ", ".join(f"{role} {human(n)}" for role, n in most["lower_bound_by_role"].items())
    least = found["least_planned_bytes"]
    rows = [
        ("budget", f"{human(found['budget_bytes'])} of {human(found['peak_without_eviction_bytes'])} without eviction"),
        ("fits", f"yes{', in an arena' if found['arena'] else ''}" if found["fits"] else "no"),
    ]
    for signature in found["kinds"]:
        name = "first step" if signature["first"] else "a step"
        overhead = signature["predicted_overhead"]
        cost = f"a predicted overhead of {overhead - 1:.1%}" if overhead else f"no plan: {signature['unplanned']}"
        if signature["predicted_ns"] and signature["predicted_ns"]["plain_host"]:
            cost += f" ({times(signature['predicted_ns'])})"
        rows.append((name, f"{signature['ops']} ops, {cost}"))
    if found["peak_allocated_bytes"]:
        reserved = f", reserved {human(found['peak_reserved_bytes'])}" if found["peak_reserved_bytes"] else ""
        beside = "some of it beside the arena" if found["arena"] else "whose addresses PyTorch's allocator fragments"
        reserved += "" if found["fits"] else f": more than the budget, {beside}"
        rows.append(("tried", f"peak allocated {human(found['peak_allocated_bytes'])}{reserved}"))
    if found["host_bytes"]:
        rows.append(("host memory", f"{human(found['host_bytes'])} for copies"))
    if found["no_offload"]:
        rows.append(("no offload", found["no_offload"]))
    rows.append(("least with a plan", human(least) if least else "none was found"))
    rows.append(("least of any", f"{human(most['lower_bound_bytes'])}, while {most['lower_bound_op']} runs: {held}"))
    if found["plan"]:
        rows.append(("plan", found["plan"]))
    return listed(rows, 18)
