"""coopsim live plan -o F -- COMMAND: the schedules of a script's steps in a budget, made before there is a GPU."""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim import budget, files
from coopsim.cli.live import Failed, said_by, script_of
from coopsim.progress import note
from coopsim.text import human

if TYPE_CHECKING:
    from coopsim.live.make import Made
    from coopsim.live.plan_file import PlanFile

_ENDLESS = 4 << 40  #: the card on which steps are recorded: none of its memory is wanted for long


def run(args: argparse.Namespace) -> int:
    from coopsim.live import plan_file

    limit = budget.parse(args.memory, None, "--memory")
    files.target(args.output)
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        recorded = _recorded(args, str(Path(folder, "recorded")))
        made = _made(recorded, limit)
        plan = replace(recorded, header=replace(recorded.header, budget_bytes=limit), kinds=[m.kind for m in made])
        fits = any(kind.schedule is not None for kind in plan.kinds if not kind.first)
        fits = fits and not any(m.least.nbytes > limit for m in made)
        said = None
        if fits:
            plan_file.save(plan, Path(folder, "plan"))
            said = _tried(args, str(Path(folder, "plan")), args.output)
            fits = not said["failed"]
            if fits:
                tried = plan_file.load(args.output)
                made = [replace(m, kind=kind) for m, kind in zip(made, tried.kinds, strict=False)]
    found = _found(args, limit, made, said, fits=fits)
    print(json.dumps(found, indent=2) if args.json else _text(found))
    if said is not None and said["failed"]:
        raise Failed(said["failed"], said["fits"])
    return 0 if fits else 3


def _recorded(args: argparse.Namespace, path: str) -> "PlanFile":
    """The script's steps, in all the memory that they want."""
    from coopsim.live import plan_file
    from coopsim.live.errors import LiveError

    endless = _ENDLESS if args.gpu else None
    script = script_of(args, memory_bytes=endless, policy=args.policy, save=path, steps=args.steps)
    said = said_by(script)
    if said["failed"]:
        raise Failed(said["failed"], said["fits"])
    if not Path(path).exists():
        raise LiveError(f"{script.title} took no step: a step is what lies between calls of Optimizer.step")
    return plan_file.load(path)


def _made(recorded: "PlanFile", limit: int) -> "list[Made]":
    from coopsim.live import make

    note(f"planning {len(recorded.kinds)} kinds of step")
    head = recorded.header
    return [make.make(kind, head.policy, limit, head.others_bytes) for kind in recorded.kinds]


def _tried(args: argparse.Namespace, plan: str, out: str) -> dict[str, Any]:
    """Run the script by the plan, so that it is made anew where the allocator needs more than it leaves."""
    note("trying the plan")
    return said_by(script_of(args, policy=args.policy, plan=plan, save=str(Path(out).absolute()), steps=args.steps))


def _found(
    args: argparse.Namespace, limit: int, made: "list[Made]", said: dict[str, Any] | None, *, fits: bool
) -> dict[str, Any]:
    """What --json prints. Of the whole: the figures of the kind that needs most, or costs most."""
    kinds = [_kind(m) for m in made]
    steady = [k for k in kinds if not k["first"]] or kinds
    planned = [k["least_planned_bytes"] for k in kinds]
    return {
        "outcome": "ok" if fits else "oom",
        "fits": fits,
        "budget_bytes": limit,
        "policy": args.policy,
        "plan": args.output if fits else None,
        "predicted_overhead": max((k["predicted_overhead"] or 0.0 for k in steady), default=0.0) or None,
        "peak_without_eviction_bytes": max(k["peak_bytes"] for k in kinds),
        "lower_bound_bytes": max(k["lower_bound_bytes"] for k in kinds),
        "least_planned_bytes": None if None in planned else max(planned),
        "peak_allocated_bytes": said["peak_allocated_bytes"] if said and fits else None,
        "peak_reserved_bytes": said["peak_reserved_bytes"] if said and fits else None,
        "kinds": kinds,
    }


def _kind(m: "Made") -> dict[str, Any]:
    return {
        "first": m.kind.first,
        "ops": m.kind.trace.n_ops,
        "peak_bytes": m.peak_bytes,
        "planned": m.kind.schedule is not None,
        "predicted_overhead": m.predicted_overhead,
        "unplanned": m.kind.why,
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
        ("fits", "yes" if found["fits"] else "no"),
    ]
    for kind in found["kinds"]:
        name = "first step" if kind["first"] else "a step"
        overhead = kind["predicted_overhead"]
        cost = f"a predicted overhead of {overhead - 1:.1%}" if overhead else f"no plan: {kind['unplanned']}"
        rows.append((name, f"{kind['ops']} ops, {cost}"))
    if found["peak_allocated_bytes"]:
        reserved = f", reserved {human(found['peak_reserved_bytes'])}" if found["peak_reserved_bytes"] else ""
        rows.append(("tried", f"peak allocated {human(found['peak_allocated_bytes'])}{reserved}"))
    rows.append(("least with a plan", human(least) if least else "none was found"))
    rows.append(("least of any", f"{human(most['lower_bound_bytes'])}, while {most['lower_bound_op']} runs: {held}"))
    if found["plan"]:
        rows.append(("plan", found["plan"]))
    return "\n".join(f"{name:<18}{value}" for name, value in rows)
