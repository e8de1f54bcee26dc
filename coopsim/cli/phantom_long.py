"""coopsim phantom run --replay-steps N, --lengths FILE: replay the steps of a script, thousands of them."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from coopsim.base.progress import note
from coopsim.base.types import CoopsimError

if TYPE_CHECKING:
    from coopsim.run import Report, Script


def run(
    args: argparse.Namespace, script: "Script", report_of: Callable[["Script", Path], "Report"], folder: Path
) -> tuple["Report", str]:
    """Run the script, and replay its steps. `report_of` runs it, and writes its requests to a file.

    Return the report with the replay, and "". Of a job of several ranks that ran, all are replayed; the report is of
    the one that runs out first, or else takes most. It is without a replay if the run was interrupted, or if the
    steps cannot be replayed; then the text says why.
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
        return _replayed(args, report, enough, file), ""
    except CoopsimError as e:
        return report, str(e)


def _replayed(args: argparse.Namespace, report: "Report", enough: "Report", file: Path) -> "Report":
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
        ranks = [replace(one, replay=verdict.replay) for one, verdict in zip(report.ranks, found, strict=True)]
        report = replace(ranks[n], ranks=tuple(ranks))
    return replace(report, replay=judge(runs[n], cards[n], note).replay)
