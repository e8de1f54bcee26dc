"""coopsim phantom run -- COMMAND: run an unmodified training script without a GPU, and report its memory use."""

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from coopsim.base import files
from coopsim.base.option import check_exclusions, given
from coopsim.base.progress import note
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.cli.common import command_of
from coopsim.cli.flags_phantom import VERB, PhantomRun
from coopsim.record.observe.masks import LOWER

if TYPE_CHECKING:
    from coopsim.run import Report, Script


def run(args: argparse.Namespace) -> int:
    from coopsim.run import Script, record, with_other_bound
    from coopsim.run import run as run_script

    command = command_of(args, "phantom run")
    check_exclusions(PhantomRun, args, VERB)
    for name in filter(None, (args.snapshot, args.trace)):
        files.target(name)
    script = Script.asked(
        command,
        given(RunOptions, args, VERB),
        card=args.gpu,
        memory_bytes=memory_of(args) if args.compile_budget is None else _compile_budget(args),
        traceback=True,
        output=2 if args.json else None,
    )
    is_gate = args.max_memory is not None or args.baseline is not None
    if args.largest:
        from coopsim.cli import phantom_largest

        return phantom_largest.run(args, script)
    if is_gate:
        return _gate(args, script)
    if args.compile_budget is not None:
        from coopsim.cli import phantom_compile

        return phantom_compile.run(args, script)
    if args.fewest_ranks:
        from coopsim.cli import phantom_fewest

        return phantom_fewest.run(args, script)
    is_long, script = script.is_long, replace(script, replay_steps=None, lengths=None)
    not_replayed = ""
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        requests = Path(folder, "requests.npy")
        if is_long:
            report, not_replayed = run_long(
                args, script, lambda it, to: run_script(it, step_requests=to, partial=True), Path(folder)
            )
        elif args.snapshot:
            report = run_script(script, snapshot=Path(args.snapshot), partial=True)
        else:
            report = run_script(script, requests=requests if args.fit else None, partial=True)
        if script.masks == "" and report.masks == "none":  # with others the script fails
            script = replace(script, masks=LOWER)
        cut = report.interrupted or report.host_ran_out
        if args.fit and not cut:
            report = _fit(script, report, requests)
        if not cut:
            report = with_other_bound(script, report)
    trace = args.trace and report.outcome == "ok" and not cut
    if trace:
        note("running it again for the trace")
        if record(replace(script, quiet=True), Path(args.trace), steps=args.trace_steps, warmup=args.warmup):
            note("the trace is of the script with CUDA graphs switched off, as their replays show no ops")
    for name, there in ((args.snapshot, True), (args.trace, trace)):
        if name and there:
            note(f"wrote {name}")
    print(json.dumps(report.to_dict(), indent=2) if args.json else report)
    if report.interrupted:
        raise KeyboardInterrupt
    if report.host_ran_out or not_replayed:
        raise CoopsimError(report.host_ran_out or f"nothing is replayed: {not_replayed}")
    runs_out = report.outcome == "oom" or (report.replay and report.replay.runs_out)
    return 3 if runs_out else 0


def memory_of(args: argparse.Namespace) -> int | None:
    """Return the card's memory by --memory, in bytes, context included; None for its own."""
    from coopsim.run.memory import of_card

    return of_card(args.gpu, args.memory, "--memory")


def _compile_budget(args: argparse.Namespace) -> int:
    from coopsim.run.memory import no_more_than, of_card

    nbytes = of_card(args.gpu, args.compile_budget, "--compile-budget")
    assert nbytes is not None
    no_more_than(args.gpu, nbytes, f"--compile-budget {args.compile_budget}")
    return nbytes


def _fit(script: "Script", report: "Report", requests: Path) -> "Report":
    from coopsim.run import fit
    from coopsim.run import run as run_script
    from coopsim.run.memory import ENDLESS

    note("looking for the smallest memory that trains")
    enough = report
    if report.outcome == "oom":
        enough = run_script(script.with_memory(ENDLESS), requests=requests)
    elif not requests.exists():  # PyTorch keeps one history, and that was for the snapshot
        enough = run_script(replace(script, quiet=True), requests=requests)
    smallest, runs = fit(script, enough, requests, note)
    return replace(report, smallest_memory_bytes=smallest, fit_runs=runs)


def _gate(args: argparse.Namespace, script: "Script") -> int:
    """Hold the script to --max-memory or --baseline, print the verdict, and return 0 if it passes, 1 if not."""
    from coopsim.run import gate
    from coopsim.run.gate import summary
    from coopsim.run.memory import of_card

    limit = of_card(args.gpu, args.max_memory, "--max-memory")
    baseline = None if args.baseline is None else gate.Baseline.read(args.baseline, update=args.update)
    free = args.allow_no_step
    verdict = gate.check(script, limit=limit, baseline=baseline, update=args.update, allow_no_step=free)
    if baseline and args.update and verdict.name in baseline.runs:
        baseline.write(verdict.name)
    summary.append(verdict)
    if args.json:
        found = {"passed": verdict.passed, "run": verdict.name, "failures": verdict.failures, "notes": verdict.notes}
        found["peaks"] = verdict.peaks.to_json() if verdict.peaks else None
        found["out_of_memory"] = asdict(oom) if (oom := verdict.report.out_of_memory) else None
        print(json.dumps(found, indent=2))
    else:
        print(summary.text_of(verdict))
    return 0 if verdict.passed else 1


def run_long(
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
    """As `run_long`, given the report, and that of a run with memory enough, whose requests are in `file`."""
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
