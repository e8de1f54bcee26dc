"""coopsim phantom run --replay-steps N, --lengths FILE: replay the steps of a script, thousands of them."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base.progress import note
from coopsim.base.text import count, human
from coopsim.base.types import CoopsimError

if TYPE_CHECKING:
    from coopsim.run import Report, Script
    from coopsim.run.longrun.verdict import LongVerdict


def run(
    args: argparse.Namespace, script: "Script", report_of: Callable[["Script", Path], "Report"], folder: Path
) -> tuple["Report", "LongVerdict | str"]:
    """Run the script, and replay its steps. `report_of` runs it, and writes its requests to a file.

    Of a job of several ranks that ran, all are replayed; report and verdict are of the one that runs out first, or
    else takes most. Instead of a verdict there is "" if the run was interrupted, and the reason if nothing can be
    replayed.
    """
    from coopsim.run.memory import ENDLESS

    file = folder / "steps"
    report = report_of(script, file)
    if report.interrupted:
        return report, ""
    enough = report
    if report.outcome == "oom":
        note("out of memory: running it again on a card without end, for the replay")
        enough = report_of(script.with_memory(ENDLESS), file)
    try:
        return _replayed(args, report, enough, file)
    except CoopsimError as e:
        return report, str(e)


def _replayed(
    args: argparse.Namespace, report: "Report", enough: "Report", file: Path
) -> tuple["Report", "LongVerdict"]:
    """As `run`, given the report, and that of a run with memory enough, whose requests are in `file`."""
    from coopsim.run.launch import longer
    from coopsim.run.longrun.run import LongRun
    from coopsim.run.longrun.verdict import judge

    lengths = Path(args.lengths) if args.lengths else None
    of = longer.recorded(enough, file)
    runs = [LongRun(recorded, lengths, args.replay_steps) for _, recorded in of]
    cards = [longer.card_of(one, report.memory_bytes) for one, _ in of]
    n = 0
    if len(of) > 1:
        found = [judge(run, card, note, helps=False) for run, card in zip(runs, cards, strict=True)]
        n = longer.worst(found)
        ranks = [replace(one, replay=verdict.to_dict()) for one, verdict in zip(report.ranks, found, strict=True)]
        report = replace(ranks[n], ranks=tuple(ranks))
    return report, judge(runs[n], cards[n], note)


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The verdict, as `Verdict.to_dict` has it, as rows of a name and a text."""
    first, last = (" x ".join(map(str, found[key])) for key in ("shortest", "longest"))
    of = f" of lengths {first} to {last}" if first else ""
    source = "" if found["lengths_from"] == "drawn" else f" from {found['lengths_from']}"
    drawn = " drawn from those recorded" if found["lengths_from"] == "drawn" and first else source
    lines = [("replay", f"{found['steps']} steps{of}{drawn}; the first {found['as_recorded']} as they were recorded")]
    recurs = [f"{what} every {found[key]}" for what, key in _RECURS if found[key]]
    lines += [("", f"steps, with {', '.join(recurs)} steps")] if recurs else []
    lines += [(name, _figures(found[name])) for name in ("allocated", "reserved")]
    out, parts = found["runs_out"], found["parts"]
    if out is not None:
        length = f" (length {' x '.join(map(str, out['length']))})" if out["length"] else ""
        lines.append(
            ("runs out", f"at step {out['step']}{length}, by {out['cause']}: asked for {human(out['requested_bytes'])}")
        )
    shares = [f"{human(parts[key])} {what}" for what, key in _PARTS if parts[key]]
    if found["retries"]:
        lines.append(
            ("", f"the allocator gave back its cache {count(found['retries'], 'time')} to go on, which takes time")
        )
    lines.append(("unlimited", f"{human(parts['reserved_bytes'])} reserved at step {parts['step']}: {shares[0]}"))
    lines += [("", f"+ {share}") for share in shares[1:]]
    lines += [("tried" if i == 0 else "", _tried(one)) for i, one in enumerate(found["tried"])]
    lines += [("not tried" if i == 0 else "", what) for i, what in enumerate(found["not_tried"])]
    if found["stood_in"]:
        lines.append(
            ("caution", f"{found['stood_in']} steps are played as of the next longer length that was recorded:")
        )
        lines.append(("", "what theirs takes does not follow from those recorded (record more: --steps)"))
    if found["estimated"]:
        lines.append(
            ("caution", f"{found['estimated']} steps are longer than all recorded, and partly estimated (2 % at most)")
        )
    lines += [
        ("caution", f"{what} follows no period in the steps that ran, and is left out") for what in found["irregular"]
    ]
    for key, what in _CAUTIONS:
        if found[key]:
            lines.append(("caution", f"{found[key]} recorded parts of steps {what}"))
    return lines


_RECURS = (("an emptied cache", "empties_every"), ("evaluation", "evaluates_every"))
_PARTS = (
    ("for a usual step", "base_bytes"),
    ("more for the longest", "longer_input_bytes"),
    ("kept by earlier steps", "kept_bytes"),
    ("by fragmentation", "fragmentation_bytes"),
)
_CAUTIONS = (
    ("left_out", "make requests like no others, and are left out"),
    ("unlike", "take other sizes than others of their length, and are taken to be like them"),
)


def _figures(of: dict[str, int]) -> str:
    mean, p99, most = (human(of[key]) for key in ("mean", "p99", "max"))
    return f"peaks of steps: mean {mean}, 99th percentile {p99}, most {most} at step {of['max_at']}"


def _tried(one: dict[str, Any]) -> str:
    fits = "fits" if one["fits"] else f"runs out at step {one['failed_at']}"
    retries = f", cache given back {count(one['retries'], 'time')}" if one["retries"] else ""
    return f"{one['what']}: {fits}, {human(one['peak_reserved_bytes'])} reserved{retries}"
