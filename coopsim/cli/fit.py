"""coopsim fit --gpu CARD -- COMMAND: find changes to a script with which it fits a card, each of them tried."""

import argparse
import contextlib
import json
import sys
from typing import TYPE_CHECKING

from coopsim.base.option import exclude, given
from coopsim.base.progress import note
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.cli.common import command_of
from coopsim.cli.phantom import memory_of

if TYPE_CHECKING:
    from coopsim.fitting import Fit, Remedy, Search
    from coopsim.fitting.searching.which import EveryCard, Which
    from coopsim.run import Script


def run(args: argparse.Namespace) -> int:
    from coopsim.fitting import Search, saved
    from coopsim.run import Script

    command = command_of(args, f"fit --gpu {args.gpu}")
    if args.gpu == "any":
        return _every_card(command, args)
    script = Script.asked(command, given(RunOptions, args, "fit"), card=args.gpu, memory_bytes=memory_of(args))
    number = args.apply or args.patch
    remedies = saved.load(script) if number else None
    if remedies is None:
        search = Search(script, jobs=args.jobs or 1, seconds=args.time, say=note)
        try:
            found = search.run()
        except KeyboardInterrupt:
            _show_what_is_known(search, args)
            raise
        remedies = found.remedies
        if not number:
            _show(found, args)
        with contextlib.suppress(OSError):  # else --apply searches again
            saved.save(script, remedies)
        if not number:
            return 0 if found.solved else 3
    if number > len(remedies):
        raise CoopsimError(
            f"there is no remedy {number}: {len(remedies) or 'none'} found; without --apply fit shows them"
        )
    chosen = remedies[number - 1]
    return _apply(script, chosen, args) if args.apply else _patch(chosen)


def _every_card(command: tuple[str, ...], args: argparse.Namespace) -> int:
    from coopsim.fitting.searching.which import EveryCard
    from coopsim.run import Script

    why = "{} is for one card; with --gpu any, leave it out"
    exclude(args, ("memory", "apply", "patch", "replay_steps", "lengths"), why)
    script = Script.asked(command, given(RunOptions, args, "fit"))
    search = EveryCard(script, seconds=args.time, jobs=args.jobs or 1, say=note)
    try:
        found = search.run()
    except KeyboardInterrupt:
        _show_what_is_known(search, args)
        raise
    _show(found, args)
    return 0 if found.solved else 3


def _apply(script: "Script", remedy: "Remedy", args: argparse.Namespace) -> int:
    from coopsim.fitting import apply

    report = apply(script, remedy, output=2 if args.json else None)
    print(json.dumps(report.to_dict(), indent=2) if args.json else report)
    return 3 if report.outcome == "oom" else 0


def _patch(remedy: "Remedy") -> int:
    if not remedy.patched:
        raise CoopsimError(remedy.patch)
    sys.stdout.flush()
    sys.stdout.buffer.write(remedy.patch.encode("utf-8", "surrogateescape"))  # a file may have another encoding
    sys.stdout.buffer.flush()
    return 0


def _show(found: "Fit | Which", args: argparse.Namespace) -> None:
    print(json.dumps(found.to_dict(), indent=2) if args.json else found)


def _show_what_is_known(search: "Search | EveryCard", args: argparse.Namespace) -> None:
    try:
        known = search.so_far(interrupted=True)
    except CoopsimError as e:
        note(str(e))
    else:
        _show(known, args)
