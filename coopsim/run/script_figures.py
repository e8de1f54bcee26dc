"""The figures of a script's process, which are those of the whole run, too: add one here, and a probe that sets it."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from coopsim.base.text import count, human
from coopsim.run import cautions
from coopsim.run.figure import AnyReport, Row, figure, listed
from coopsim.run.records import EndedLoop, GraphBreak, InputSizes, OutOfMemory, SizeFromData
from coopsim.run.records_memory import Growth, Holder, HostMemory, PartPeaks, PhasePeaks, UnusedVariable

_CALLS = 3  #: of models before the first backward pass of a step, that are nothing unusual
_WIDTH = 96  #: of a line of kinds


def _unallocated(report: AnyReport) -> list[Row]:
    part = f"{100 * report.reserved_but_unallocated:.1f} % of the reserved memory, at the peaks"
    return [("peak reserved", human(report.peak_reserved_bytes)), ("unallocated", part)]


def _active(report: AnyReport) -> Iterator[Row]:
    """Blocks that other streams hold back, if they are 1 % of the peak."""
    if report.peak_active_bytes - report.peak_allocated_bytes > 0.01 * report.peak_allocated_bytes:
        held = "freed blocks that another stream still uses (record_stream) included"
        yield "peak active", f"{human(report.peak_active_bytes)}, {held}"


def _of_the_card(report: AnyReport) -> list[Row]:
    nccl = f" and NCCL's {human(report.nccl_bytes)}" if report.nccl_bytes else ""
    beside = f"the context's {human(report.context_bytes)}{nccl}"
    return [("of the card", f"{human(report.peak_device_bytes)} with {beside}")]


def _ran_out(report: AnyReport) -> Iterator[Row]:
    if report.retries or report.ooms:
        times = "once" if report.ooms == 1 else f"{report.ooms} times"
        yield "memory ran out", f"{times}; the allocator emptied its cache to try again: {report.retries}"


def _compiled(report: AnyReport) -> Iterator[Row]:
    if report.compiled_graphs:
        breaks = sum(not end.uncompiled for end in report.graph_breaks)
        yield "compiled", f"{count(report.compiled_graphs, 'graph')}, {count(breaks, 'graph break')}"


def _managed(report: AnyReport) -> Iterator[Row]:
    if report.managed_bytes:
        yield "managed memory", f"{human(report.managed_bytes)} moves between host and card, not counted above"


def _limit(report: AnyReport) -> Iterator[Row]:
    if report.limit_bytes is not None:
        limit = f"{report.memory_fraction:.4g} of the card's memory, {human(report.limit_bytes)}"
        yield "limit", f"{limit}, by set_per_process_memory_fraction"


def _by_kind(report: AnyReport) -> list[Row]:
    kinds = {kind: nbytes for kind, nbytes in report.peak_by_kind.items() if nbytes}
    text = ", ".join(f"{kind.replace('_', ' ')} {human(nbytes)}" for kind, nbytes in kinds.items())
    return listed(textwrap.wrap(text, _WIDTH), "of it")


def _phases(report: AnyReport) -> Iterator[Row]:
    yield from ((name, of.text) for name, of in report.phases.items())
    of = report.evaluation
    if of.grows_bytes:
        yield "", f"grows by {human(of.grows_bytes)} per batch, for {count(of.batches, 'batch', 'es')}"
    yield from listed((one.of_batches for one in report.evaluation_keeps), "kept by")
    if of.with_gradients:
        yield "", "with gradients: without torch.no_grad() it keeps what a backward pass would need"
    if of.left_bytes and not report.growth:
        yield "", f"leaves {human(of.left_bytes)} allocated each time"


def _no_backward(report: AnyReport) -> Iterator[Row]:
    if report.no_backward > (_CALLS if report.failed else 0):
        calls = count(report.no_backward, "call")
        yield "no backward", f"pass follows {calls} of models with gradients: torch.no_grad() is missing"


def _growth(report: AnyReport) -> list[Row]:
    full = report.full_after(report.memory_bytes) if report.outcome != "oom" else None
    return report.growth.rows(full) if report.growth else []


@dataclass(kw_only=True)
class ScriptFigures:
    """What one process did and took: the figures of both its own report and that of the whole run (report.py)."""

    versions: dict[str, str] = figure(
        dict, "of torch, transformers, triton; what the [context](../phantom-gpu.md#the-context) took in the end"
    )
    context_bytes: int = figure(0)
    steps: int = figure(0, "calls of `step` of the first optimizer, or, once it is gone, of the next")
    peak_allocated_bytes: int = figure(
        0,
        "the caching allocator's peaks; active: with blocks that were freed while another stream still uses them",
        rows=lambda r: [("peak allocated", human(r.peak_allocated_bytes))],
    )
    peak_reserved_bytes: int = figure(0, rows=_unallocated)
    peak_requested_bytes: int = figure(0)
    peak_active_bytes: int = figure(0, rows=_active)
    peak_device_bytes: int = figure(0, "the most that was taken from the card, context included", rows=_of_the_card)
    retries: int = figure(
        0,
        "how often the allocator emptied its cache to try again; how often it gave up (a script may catch that)",
        rows=_ran_out,
    )
    ooms: int = figure(0)
    needs_data: list[SizeFromData] = figure(
        list,
        "`op`, `place`, `calls` of ops that take sizes from data, and `by` what they were given: `masks`, or `even` "
        "shares",
        cautions=lambda r: [one.caution(r.masks) for one in r.needs_data],
    )
    loops_ended: list[EndedLoop] = figure(
        list,
        "`place`, `iterations`, `times` of [loops that wait](../phantom-run.md#data-on-the-device) for a value of the "
        "device",
        cautions=lambda r: [one.caution for one in r.loops_ended],
    )
    compiled_graphs: int = figure(
        0,
        "graphs that torch.compile compiled; where they break: `place`, `reason`, `calls`, `uncompiled` (true: the "
        "function that begins there runs as it is)",
        rows=_compiled,
    )
    graph_breaks: list[GraphBreak] = figure(list, lines=lambda r: [one.line for one in r.graph_breaks])
    default_choices: bool = figure(
        False,
        "true if `max-autotune` was asked for, and the default choices were taken",
        lines=cautions.default_choices,
    )
    first_step_peak_reserved_bytes: int | None = figure(
        None,
        "the peak until the first step of the optimizer has ended, and those within the last one; null without the "
        "first or a second",
    )
    steady_peak_reserved_bytes: int | None = figure(None)
    steady_peak_allocated_bytes: int | None = figure(None)
    out_of_memory: OutOfMemory | None = figure(
        None,
        "null, or of the last time: `place`, `op`, `module`, `phase`, `step`, `batch`, `batches` (of an evaluation, "
        "else 0), `requested_bytes`, `allocated_bytes`, `reserved_bytes`, `largest_free_block_bytes`, "
        '`device_free_bytes`, `held_bytes` by role ("other": workspaces and temporaries, which no tensor holds), '
        "`largest` (the largest groups: `role`, `op`, `module`, `storages`, `bytes`)",
        rows=lambda r: r.failed.rows(r.memory_bytes) if r.failed else [],
    )
    nccl_bytes: int = figure(
        0,
        "what [NCCL](../many-ranks.md) took from the card for itself, an estimate; the most managed memory there was, "
        "which is in no other figure",
    )
    managed_bytes: int = figure(0, rows=_managed)
    memory_fraction: float | None = figure(
        None,
        "the part of the card to which the script limits PyTorch's allocator; null: none; also in `out_of_memory`, as "
        "it was then",
        rows=_limit,
    )
    peak_by_kind: dict[str, int] = figure(
        dict,
        "what makes up the peak of allocated memory: `parameters`, `gradients`, `optimizer_state`, `module_buffers`, "
        "`optimizer_temporaries` (of its steps), `gathered_layers`, `buckets`, `activations`, `unused` (read by no "
        "step), `workspaces` (cuBLAS's), `other`",
        rows=_by_kind,
    )
    benchmarked: bool = figure(
        False,
        "whether the script has convolutions and sets `cudnn.benchmark`, so that its workspaces are "
        "[not known](../phantom-gpu.md#limits)",
        cautions=cautions.benchmarked,
    )
    split_limit_mib: int = figure(
        0, "`max_split_size_mb`, if `expandable_segments` is set, too; else 0", cautions=cautions.split_limit
    )
    garbage_bytes: int = figure(
        0,
        "the most that Python's garbage collector, unasked, freed of the card at once: tensors in reference cycles",
        cautions=cautions.garbage,
    )
    left_out_workspace_bytes: int = figure(
        0,
        "of cuDNN's [workspaces](../phantom-gpu.md#cudnns-workspaces) that are not counted, the largest by the rules "
        "of an H100 (of an RNN: with what it keeps); 0 where they are counted",
        cautions=cautions.left_out,
    )
    watched_by_mode: bool = figure(
        False,
        "true where ops were followed by a dispatch mode, because [coopsim's library](../capture.md#what-is-recorded) "
        "cannot be had (no C++ compiler): peaks may be too high",
        lines=cautions.watched_by_mode,
    )
    growth: Growth | None = figure(None, "[memory that grows from step to step](#growth), or null", rows=_growth)
    phases: dict[str, PartPeaks | PhasePeaks] = figure(
        dict,
        "[the parts of the run](../phantom-run.md#evaluation-and-generation), by name: `peak_allocated_bytes`, "
        "`peak_reserved_bytes`; of evaluation and generation also `times`, `added_bytes`, `batches` (the most), "
        "`grows_bytes` (per batch; 0: it does not grow), `with_gradients` (batches), `left_bytes` (each time; 0: not "
        "alike)",
        rows=_phases,
    )
    host: HostMemory | None = figure(
        None,
        "[memory of the host](../phantom-run.md#memory-of-the-host): `peak_rss_bytes`; `workers` (`count`, "
        "`peak_rss_bytes`); `shared_bytes`; `loaders` (`place`, `workers`, `prefetch`, `pins`); `pinned_bytes`; "
        "`pinned_by` (`place`, `bytes`)",
        rows=lambda r: r.host.rows() if r.host else [],
    )
    lost: dict[str, str] = figure(
        dict,
        "parts of the report that could not be made (`peak_by_kind`, `growth`, `garbage`, `host`, `unused`, "
        "`input_sizes`, `snapshot`, `requests`), each with the error; {} if there are none",
        lines=lambda r: [f"caution: the report lacks {part.replace('_', ' ')}: {why}" for part, why in r.lost.items()],
    )
    unused: list[UnusedVariable] = figure(
        list,
        "variables whose tensors on the card no step reads, the largest first: `name`, `kind` (the type of its value), "
        "`file`, `place`, `tensors`, `bytes`, `later` (made after the first steps)",
        rows=lambda r: listed(map(str, r.unused), "unused"),
    )
    ended_early: bool = figure(False, "whether coopsim ended it after a step, as asked for or as it was interrupted")
    input_sizes: InputSizes | None = figure(
        None,
        "where models' inputs vary in more than a smaller last batch: how many shapes were `seen`, and the `largest`; "
        "else null",
        cautions=lambda r: [r.input_sizes.caution] if r.input_sizes and r.replay is None else [],
    )
    no_backward: int = figure(
        0,
        "calls of models with gradients, where no backward pass followed any: `torch.no_grad()` is missing",
        rows=_no_backward,
    )
    evaluation_peaks: tuple[int, ...] = ()  #: peaks of allocated bytes, of each batch of an evaluation (peaks.py)
    evaluation_keeps: list[Holder] = figure(
        list, "what an evaluation keeps of its batches: variables, as in `growth`'s `kept_in`"
    )
    plugin: dict[str, Any] = field(default_factory=dict)  #: what the task's plugin reported (launch/plugin.py)
