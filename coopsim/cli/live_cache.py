"""The plans that `coopsim live run` keeps in the user's cache folder for other starts of a script.

They are plan files (live/plan_file.py), which hold no code; the ops of a step tell whether they are of it.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopsim.base.progress import note
from coopsim.cli.live_script import hosting_of, no_arena


def with_kept(args: argparse.Namespace, told: dict[str, Any], *, arena: bool) -> dict[str, Any]:
    """Return the arguments of `live_script.script_of`: `told`, the arena, and where plans are kept.

    A note says what is taken from an earlier start: its plans, or that its steps were not steady, so that an arena is
    used. Nothing is kept with --no-cache, or with a plan.
    """
    told = told | {"arena": arena}
    if args.no_cache or args.plan is not None:
        return told
    from coopsim.live import plan_file
    from coopsim.live.errors import LiveError

    file = plan_file.place(*_key(args, arena=arena))
    plan_file.trim(file.parent)
    told |= {"cache": str(file)}
    try:
        head = plan_file.load(file).header if file.exists() else None
    except LiveError as why:
        note(f"{why}: planning anew")
        return told
    if head is None:
        return told
    in_bytes = {"memory": f"{head.budget_bytes}B"}  # an arena is made before the steps are known that a share is of
    if head.steady or head.arena:
        file.touch()
        note("following the plans of an earlier start of this script (--no-cache: plan anew)")
        return told | {"cached": True, "arena": head.arena} | (in_bytes if head.arena else {})
    if args.arena is None and args.gpu and not no_arena():
        note(
            "in an earlier start, steps went on to take GPU memory and give it back: using an arena (--no-arena: none)"
        )
        return told | {"arena": True} | in_bytes
    return told | {"cached": True}


def without_arena(file: str) -> None:
    """Let later starts follow the plans in this file as they are, as the script has failed in an arena."""
    from coopsim.live import plan_file

    kept = plan_file.load(file)
    plan_file.save(replace(kept, header=replace(kept.header, steady=True)), file)


def _key(args: argparse.Namespace, *, arena: bool) -> tuple[object, ...]:
    """All that plans depend on, beside the machine and the steps themselves."""
    from coopsim.fitting.saved import versions

    command = [word for word in args.command if word != "--"]
    texts = [Path(word).read_bytes() for word in (*command, args.gpu or "") if _is_text(word)]
    settings = {name: value for name, value in os.environ.items() if name.endswith("_ALLOC_CONF")}
    how = args.memory, args.policy, args.gpu, args.masks, hosting_of(args), args.offload, arena, args.arena
    return versions(), str(Path.cwd()), command, texts, sorted(settings.items()), how


def _is_text(word: str) -> bool:
    return word.endswith((".py", ".json")) and Path(word).is_file()
