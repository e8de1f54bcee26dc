"""Run a script of the user's, unmodified, on the phantom GPU, and report its memory use."""

import tempfile
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from coopsim.base.errors import CaptureError
from coopsim.base.run_options import InProcess
from coopsim.record.observe.masks import LOWER
from coopsim.run.launch import failures, longer, start
from coopsim.run.launch.start import Running
from coopsim.run.ranks import launcher, world
from coopsim.run.ranks.job import of_rank
from coopsim.run.ranks.job import run as ranks_of
from coopsim.run.report import Bound, Report
from coopsim.run.script import Script
from coopsim.run.script_figures import ScriptFigures
from coopsim.run.task import Task


def run(
    script: Script,
    *,
    snapshot: Path | None = None,
    requests: Path | None = None,
    step_requests: Path | None = None,
    running: Running | None = None,
    partial: bool = False,
) -> Report:
    """Run a script to its end, and return the report.

    `snapshot`: file for PyTorch's memory snapshot of the moment when memory ran out, or else of the end.
    `requests`: file for the requests to the allocator (probes/requests.py); not written if there were too many.
    `step_requests`: file for the requests of each step (longrun/recorded.py); of each rank of a job: job.of_rank.
    `running`: receives the processes, so that another thread can end them.
    A script that is judged by a long run has the figures of that (longer.py), unless `step_requests` is given.
    `partial`: an interrupted run of one program ends with its next step, and the report is of what it did until then,
    as is that of a run which ends because the host's memory runs out.
    Unless the script says what masks keep, they keep all of their elements; if the script fails so, it is run again
    with masks that keep nothing, and `other_masks` of the report says why.
    Raises CaptureError if the script failed for another reason than memory, or never used the GPU, HostRanOutError if
    the host's memory ran out; PhantomError if the
    phantom GPU cannot be built here.
    """
    if script.is_long and step_requests is None:
        with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
            file = Path(folder, "steps.npz")
            return longer.judged(script, run(script, step_requests=file, running=running, partial=partial), file)
    running = running or Running()
    to = _Files(_absolute(snapshot), _absolute(requests), _absolute(step_requests))
    try:
        return _run(script, to, running, partial=partial)
    except failures.HostRanOutError as e:
        if not partial:
            raise
        return e.report
    except failures.DependsOnDataError as e:
        if script.masks:
            raise
        try:
            report = _run(replace(script, masks=LOWER), to, running, partial=partial)
        except CaptureError:
            raise e from None
        start.say(script, f"with masks that keep all of their elements the script fails, and was run again: {e}")
        return replace(report, other_masks=Bound("all", failure=str(e)))


class _Files(NamedTuple):
    """Absolute paths of what a run is to write, "" for nothing."""

    snapshot: str
    requests: str
    step_requests: str


def _run(script: Script, to: _Files, running: Running, *, partial: bool) -> Report:
    task = _task(
        script,
        snapshot=to.snapshot,
        requests=to.requests,
        step_requests=to.step_requests,
        plugin=script.plugin,
        told=script.told,
        ends_after=script.steps or 0,
        watched=script.watched,
        explains=script.explains,
    )
    job, ran = _start(script, task, running, partial=partial)
    if job is None:
        return _report(script, ran[0])
    about: dict[str, Any] = {"world_size": job.size, "ranks_per_node": job.per_node, "cards_per_node": job.cards}
    said, failed = [], []
    kind: type[CaptureError] = CaptureError
    for one in ran:
        try:
            said.append(replace(_report(script, one), **about))
        except CaptureError as e:
            failed.append((one.rank, str(e)))
            kind = type(e) if isinstance(e, failures.DependsOnDataError) else kind
    if failed and not any(report.outcome == "oom" for report in said):
        _keep_that_of(-1, [one.rank for one in ran], to)
        raise kind(failures.by_rank(failed))
    most = max(said, key=lambda report: (report.outcome == "oom", report.peak_reserved_bytes))
    _keep_that_of(most.rank, [one.rank for one in ran], to)
    return replace(most, ranks=tuple(said))


def _keep_that_of(rank: int, ranks: list[int], to: _Files) -> None:
    """Of the files that each rank has written, keep that of one rank, whose report is shown; -1: of none."""
    for file in filter(None, (to.snapshot, to.requests)):
        for one in ranks:
            own = Path(of_rank(file, one))
            if one == rank and own.exists():
                own.replace(file)
            own.unlink(missing_ok=True)


def _task(script: Script, **asked: Any) -> Task:
    """The task of each process of a script; `asked`: its fields beside the card and what the script's options are."""
    shown = {"traceback": script.traceback and not script.quiet}
    return Task(script.card, **{f.name: getattr(script, f.name) for f in fields(InProcess)} | shown | asked)


def _start(
    script: Script, task: Task, running: Running, *, partial: bool = False
) -> tuple[world.World | None, list[start.RanProgram]]:
    """Run the command to its end, or, if it is a launcher, the ranks that it would start.

    Return the world, None for a program without ranks, and the ends of what was run.
    """
    if script.world_size is not None and script.is_python:
        job = world.of_size(script.world_size)
        return ranks_of(script, task, launcher.Launch.of(script.words(), job), job, running)
    launch, ran = start.program(script, task, running, partial=partial)
    if launch is not None:
        job = launch.world if script.world_size is None else launch.world.resized(script.world_size)
        return ranks_of(script, task, launch, job, running)
    if ran.code == 0 and (script.world_size is not None or script.ranks is not None):
        option = "--world" if script.world_size is not None else "--ranks"
        raise CaptureError(
            f"{option}: {script.title} starts no ranks; name a launcher (torchrun), or the script itself with --world N"
        )
    return None, [ran]


def plugin_reports(script: Script) -> list[dict[str, Any]]:
    """Run a script to its end, as one program, on the phantom GPU or this machine's own devices.

    Return the plugin's report of each process that it was in, with `needs_data` and `loops_ended` as in Report. Raises
    CaptureError if the script failed and no plugin has reported that (`failed`), and if it is a launcher, whose ranks
    are not started.
    """
    task = _task(script, traceback=script.traceback, plugin=script.plugin, told=script.told, explains=False)
    launch, ran = start.program(script, task, Running())
    if launch is not None:
        n = launch.world.size
        ranks = f"{n} ranks" if n > 1 else "a rank"
        raise CaptureError(
            f"{script.title} starts {ranks}: coopsim live runs programs of one process, and no FSDP; "
            "name the script itself"
        )
    said = [
        report.plugin | {key: [asdict(one) for one in getattr(report, key)] for key in ("needs_data", "loops_ended")}
        for report in ran.reports
        if report.plugin
    ]
    if not any(one.get("failed") for one in said):
        failures.explain(script, ran.code, ran.reports)
    if not said:
        raise CaptureError(f"{script.title} never imported torch")
    if script.card and not any(report.used for report in ran.reports):
        raise failures.unused(script)
    return said


def _report(script: Script, ran: start.RanProgram) -> Report:
    """Make the report of one rank from those of its processes. Raises CaptureError as `run` does."""
    code, reports = ran.code, ran.reports
    used = [report for report in reports if report.used]
    if not used:
        failures.explain(script, code, reports)
        if not reports:
            why = "it ended at once, as by os._exit or a signal, or it sets PYTHONPATH itself: do that before coopsim"
            raise CaptureError(f"{script.title} left no report: {why}")
        raise failures.unused(script)
    most = max(used, key=lambda report: report.peak_reserved_bytes)
    # A script that catches the error, or whose child process fails, may exit with 0 without having run as a whole.
    oom = any(report.gave_up or (report.ooms and (code or report.error)) for report in used)
    host = "" if oom or ran.interrupted else failures.host_ran_out(code, reports)
    if not oom and not ran.interrupted and not host:
        failures.explain(script, code or int(bool(most.error)), reports)
    if most.compile_asked and not most.compiled_graphs and most.graph_breaks:
        lost = most.graph_breaks[-1]
        raise CaptureError(f"{lost.place}: torch.compile compiled nothing: {lost.reason}")
    common = {one.name: getattr(most, one.name) for one in fields(ScriptFigures)}
    seen = (report.out_of_memory for report in (most, *used) if report.out_of_memory)
    report = Report(
        host_ran_out=host,
        command=list(script.command),
        gpu=script.card,
        memory_bytes=script.total_bytes,
        outcome="oom" if oom else "ok",
        interrupted=ran.interrupted,
        processes=len(used),
        rank=ran.rank,
        masks={"": "all", LOWER: "none"}.get(script.masks, script.masks),
        **common | {"out_of_memory": next(seen, None)},
    )
    if host:
        raise failures.HostRanOutError(host, report)
    return report


def record(script: Script, out: Path, *, steps: int, warmup: int) -> bool:
    """Run a script and write a trace of `steps` consecutive steps of it to `out`, after `warmup` steps (at least 1).

    A step is what lies between two calls of Optimizer.step. Of a job of several ranks, the first that is run is
    recorded. Return whether Inductor was kept from making CUDA graphs. Raises what `run` raises, and CaptureError if
    there are too few steps or the script replays CUDA graphs.
    """
    need = max(warmup, 1) + steps
    task = _task(script, trace=_absolute(out), steps=steps, warmup=warmup, command=script.title, ends_after=need)
    _, ran = _start(script, task, Running())
    code, reports = ran[0].code, ran[0].reports
    if not any(report.trace == "written" for report in reports):
        failures.explain(script, code, reports)
        if any(report.trace == "graphs" for report in reports):
            raise CaptureError(f"{script.title} replays CUDA graphs, which show no ops; leave --trace out")
        raise CaptureError(
            f"{script.title} is too short for a trace: that takes {need} calls of a torch optimizer's step"
        )
    return any(report.graphs_off for report in reports)


def _absolute(path: Path | None) -> str:
    return "" if path is None else str(path.absolute())


def with_other_bound(script: Script, report: Report) -> Report:
    """Run the script again with masks that keep nothing, and return `report` with those figures in `other_masks`.

    If that run fails, `other_masks` says why.

    If the script takes more with the lower bound, as it may where the host branches on a mask, that run's report is
    returned and `other_masks` has the figures of the first, except where the smallest memory was searched for, or the
    steps were replayed.

    The report is returned as it is if the user has said what masks keep (`Script.masks`), if no size depended on a
    mask, or if the run with the other bound is the one that failed.
    """
    if script.masks or not report.depends_on_masks or report.other_masks is not None:
        return report
    try:
        low = run(replace(script, masks=LOWER, quiet=True))
    except CaptureError as e:
        return replace(report, other_masks=Bound("none", failure=str(e)))
    one_run = report.smallest_memory_bytes is None and (report.replay is None or low.replay is not None)
    if one_run and _size(low) > _size(report):
        return replace(low, other_masks=Bound.of(report))
    return replace(report, other_masks=Bound.of(low))


def _size(report: Report) -> tuple[bool, int]:
    return report.outcome == "oom", report.peak_reserved_bytes
