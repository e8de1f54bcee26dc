"""coopsim phantom run -- COMMAND: run an unmodified training script without a GPU, and report its memory use."""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import files, text
from coopsim.base.option import check_exclusions, given
from coopsim.base.progress import note
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.cli import phantom_gate, phantom_growth, phantom_long
from coopsim.cli import phantom_ranks as ranks
from coopsim.cli.common import command_of
from coopsim.cli.flags_phantom import VERB, PhantomRun
from coopsim.phantom import compilers
from coopsim.record.observe.masks import LOWER
from coopsim.run import memory, words

if TYPE_CHECKING:
    from coopsim.run import OutOfMemory, Report, Script

_CALLS = 3  #: of models before the first backward pass of a step, that are nothing unusual


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
        return phantom_gate.run(args, script)
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
            report, verdict = phantom_long.run(
                args, script, lambda it, to: run_script(it, step_requests=to, partial=True), Path(folder)
            )
            if isinstance(verdict, str):
                not_replayed = verdict
            else:
                report = replace(report, replay=verdict.to_dict())
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
    print(json.dumps(report.to_dict(), indent=2) if args.json else text_of(report))
    if report.interrupted:
        raise KeyboardInterrupt
    if report.host_ran_out or not_replayed:
        raise CoopsimError(report.host_ran_out or f"nothing is replayed: {not_replayed}")
    runs_out = report.outcome == "oom" or (report.replay and report.replay["runs_out"])
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


def text_of(report: "Report") -> str:
    """Return the report of a run as text."""
    human = text.human
    failed = report.out_of_memory if report.outcome == "oom" else None
    rows = [
        ("GPU", f"{profiles.get(report.gpu).title} with {human(report.memory_bytes)}, imitated"),
        *ranks.rows(report),
        ("outcome", failed.title if failed else _trained(report)),
        ("peak allocated", human(report.peak_allocated_bytes)),
        *ranks.by_kind(report),
        *_active(report),
        ("peak reserved", human(report.peak_reserved_bytes)),
        ("unallocated", f"{100 * report.reserved_but_unallocated:.1f} % of the reserved memory, at the peaks"),
        ("of the card", f"{human(report.peak_device_bytes)} with {_beside_pytorch(report)}"),
    ]
    rows += _apart(report)
    rows += [(name, _phase(of)) for name, of in report.phases.items()]
    if (of := report.phases.get("evaluation", {})).get("grows_bytes"):
        rows.append(
            ("", f"grows by {human(of['grows_bytes'])} per batch, for {text.count(of['batches'], 'batch', 'es')}")
        )
    rows += [("" if i else "kept by", _keeps(one)) for i, one in enumerate(report.evaluation_keeps)]
    if of.get("with_gradients"):
        rows.append(("", "with gradients: without torch.no_grad() it keeps what a backward pass would need"))
    if of.get("left_bytes") and not report.growth:
        rows.append(("", f"leaves {human(of['left_bytes'])} allocated each time"))
    if report.no_backward > (_CALLS if failed else 0):
        calls = text.count(report.no_backward, "call")
        rows.append(("no backward", f"pass follows {calls} of models with gradients: torch.no_grad() is missing"))
    rows += words.of_unused(report.unused)
    rows += words.of_host(report.host)
    rows += phantom_growth.rows(report)
    rows += phantom_long.rows(report.replay) if report.replay else []
    if report.compiled_graphs:
        rows += _compiled(report)
    if report.retries or report.ooms:
        times = "once" if report.ooms == 1 else f"{report.ooms} times"
        rows.append(("memory ran out", f"{times}; the allocator emptied its cache to try again: {report.retries}"))
    if report.smallest_memory_bytes is not None:
        rows.append(
            (
                "smallest memory",
                f"{human(report.smallest_memory_bytes)} ({report.smallest_memory_bytes >> 20} MiB) trains, the context "
                f"included, and 2 MiB less does not ({report.fit_runs} run{'s' * (report.fit_runs != 1)})",
            )
        )
    if report.too_close_to_call:
        why = memory.in_words(report.needs_bytes, report.memory_bytes)
        why += memory.of_context(report.needs_bytes, report.memory_bytes, profiles.get(report.gpu).context)
        rows.append(("too close", f"to call: needs {human(report.needs_bytes)}, {why}"))
    rows += words.of_masks(report)
    if failed:
        rows += _memory(failed, report.memory_bytes)
    lines = [text.listed(rows, 16)]
    lines += [
        f"{'uncompiled' if end['uncompiled'] else 'graph break'} at {end['place']}: {end['reason']}"
        for end in report.graph_breaks
    ]
    if report.default_choices:
        lines.append(
            "caution: max-autotune chooses kernels by times that only the card itself has; these figures are with "
            "Inductor's default choices"
        )
    if report.watched_by_mode:
        lines.append(
            f"caution: {compilers.why_not()}: this run was watched by a dispatch mode, for which some of autograd's "
            "formulas take more memory than on a card, up to half as much again"
        )
    lines += [f"caution: the report lacks {part.replace('_', ' ')}: {why}" for part, why in report.lost.items()]
    lines += words.cautions(report)
    return "\n".join(lines)


def _phase(of: dict[str, int]) -> str:
    """Return what a part of the run took."""
    human = text.human
    said = f"{human(of['peak_allocated_bytes'])} allocated, {human(of['peak_reserved_bytes'])} reserved at the peaks"
    if "times" not in of:
        return said
    return f"{said}; {text.count(of['times'], 'time')}, {human(of['added_bytes'])} more than when it began"


def _keeps(one: dict[str, Any]) -> str:
    """Return what a variable keeps of an evaluation's batches."""
    at = f" at {one['place']}" if one["place"] else ""
    kept = f"{text.count(one['tensors'], 'tensor')} of earlier batches, {text.human(one['bytes'])}"
    return f"{one['name']} ({one['kind']}){at}: {kept}"


def _apart(report: "Report") -> list[tuple[str, str]]:
    """Return the rows on managed memory, and on the limit that the script sets."""
    rows = []
    if report.managed_bytes:
        rows.append(
            ("managed memory", f"{text.human(report.managed_bytes)} moves between host and card, not counted above")
        )
    if report.limit_bytes is not None:
        limit = f"{report.memory_fraction:.4g} of the card's memory, {text.human(report.limit_bytes)}"
        rows.append(("limit", f"{limit}, by set_per_process_memory_fraction"))
    return rows


def _trained(report: "Report") -> str:
    """How far it came."""
    if report.host_ran_out:
        return (
            f"the host's memory ran out after {text.count(report.steps, 'optimizer step')}; the figures are of what ran"
        )
    if report.interrupted:
        return f"interrupted after {text.count(report.steps, 'optimizer step')}; the figures are of what ran"
    if not report.steps:
        return "ended without an optimizer step"
    return f"trained: {text.count(report.steps, 'optimizer step')}" + (", as asked for" if report.ended_early else "")


def _beside_pytorch(report: "Report") -> str:
    nccl = f" and NCCL's {text.human(report.nccl_bytes)}" if report.nccl_bytes else ""
    return f"the context's {text.human(report.context_bytes)}{nccl}"


def _compiled(report: "Report") -> list[tuple[str, str]]:
    """Return the rows on what torch.compile compiled."""
    breaks = sum(not end["uncompiled"] for end in report.graph_breaks)
    return [("compiled", f"{text.count(report.compiled_graphs, 'graph')}, {text.count(breaks, 'graph break')}")]


def _active(report: "Report") -> list[tuple[str, str]]:
    """Return the row on blocks that other streams hold back; [] if they are less than 1 % of the peak."""
    more = report.peak_active_bytes - report.peak_allocated_bytes
    if more <= 0.01 * report.peak_allocated_bytes:
        return []
    held = "freed blocks that another stream still uses (record_stream) included"
    return [("peak active", f"{text.human(report.peak_active_bytes)}, {held}")]


def _left(failed: "OutOfMemory", memory_bytes: int) -> str:
    """Say how much was left when memory ran out: of the card, or of the script's limit for PyTorch."""
    free = f"the card had {text.human(failed.device_free_bytes)} left"
    if failed.memory_fraction is None:
        return free
    left = max(int(failed.memory_fraction * memory_bytes) - failed.reserved_bytes, 0)
    if left >= failed.device_free_bytes:
        return free
    return f"the limit of {failed.memory_fraction:.4g} of the card left {text.human(left)}; {free}"


def _memory(failed: "OutOfMemory", memory_bytes: int) -> list[tuple[str, str]]:
    """Return the rows on the request that failed, and on what held memory then."""
    human = text.human
    cached = failed.reserved_bytes - failed.allocated_bytes
    rows = [
        ("failed", f"{failed.op}{f' in {failed.module}' if failed.module else ''}"),
        ("asked for", f"{human(failed.requested_bytes)}; {_left(failed, memory_bytes)}"),
        ("allocated", human(failed.allocated_bytes)),
        ("cached", f"{human(cached)}, the largest block {human(failed.largest_free_block_bytes)}"),
        ("held by", failed.held),
    ]
    for i, group in enumerate(failed.largest):
        by = f"by {group.op}" + (f" in {group.module}" if group.module else "") if group.op else ""
        what = "unused tensor" if group.role == "unused" else group.role
        plural = "" if group.storages == 1 else "s"
        rows.append(
            (
                "largest" if i == 0 else "",
                f"{human(group.bytes):>10}  {group.storages} {what}{plural} {by}".rstrip(),
            )
        )
    return rows
