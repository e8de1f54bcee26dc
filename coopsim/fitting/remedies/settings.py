"""Remedies "settings": of the allocator, FSDP, how the optimizer steps, how gradients are cleared, and the like."""

import functools
import itertools
import os
from collections.abc import Iterator, Sequence

from coopsim.base import alloc_conf
from coopsim.base.types import CoopsimError
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import edits, fsdp, source
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.remedies import loss, unused
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import Optimizer

#: The allocator's settings, in the order of trials.
_SETTINGS = (alloc_conf.EXPANDABLE, "garbage_collection_threshold:0.8", "max_split_size_mb:128")


def propose_allocator(bench: Bench) -> None:
    """Propose a setting of PyTorch's allocator.

    The recorded requests are replayed with each setting; the script is run with the first that serves them. A script
    that is judged by a long run is run with expandable segments, which helps most there.
    """
    report = bench.survey.report
    if report.context_bytes + report.peak_allocated_bytes > bench.limit_bytes:
        return
    if report.replay is not None:
        bench.fits(_expandable(bench))
        return
    for setting in _SETTINGS:
        wanted = _with(bench, setting)
        needs = bench.needs(wanted.changes)
        if needs is not None and needs <= bench.limit_bytes:
            bench.fits(wanted)
            return


def propose_others(bench: Bench) -> None:
    """Propose every other setting that may suffice, each on its own.

    They are: no cache of keys and values, the loss in chunks, how gradients are cleared, how the optimizer steps.
    """
    in_chunks = loss.in_chunks(bench) if loss.may_suffice(bench) else None
    bench.each((without_cache(bench), in_chunks, *_others(bench)))


def together(bench: Bench, *, optimizer: bool = True) -> Remedy | None:
    """Return one remedy, not tried yet, of all settings that may help; there is always one, of the allocator.

    That of the cache is left out: recomputation, with which this is combined, turns it off by itself. optimizer:
    whether to include settings of how the optimizer steps.
    """
    every = (_expandable(bench), loss.in_chunks(bench), *_others(bench), *of_sharding(bench), *unused.all_of(bench))
    parts = [part for part in every if part is not None]
    if not optimizer:
        parts = [p for p in parts if p.changes.foreach is None and p.changes.fused is None]
    if any(p.changes.fused for p in parts):
        parts = [p for p in parts if p.changes.foreach is None]
    return functools.reduce(Remedy.with_, parts)


def _expandable(bench: Bench) -> Remedy:
    return _with(bench, _SETTINGS[0])


def _with(bench: Bench, setting: str) -> Remedy:
    value = ",".join(filter(None, [os.environ.get(alloc_conf.VARIABLE), setting]))
    changes = Changes(variables=((alloc_conf.VARIABLE, value),))
    return bench.proposal("settings", setting, (line(value),), changes, same=True)


def line(value: str) -> str:
    """Return the shell line that sets the allocator's configuration to `value`."""
    return f"export {alloc_conf.VARIABLE}={value}"


def without_cache(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet, without the cache of keys and values that models of transformers keep.

    None if no model has one.
    """
    models = [model for model in bench.survey.models if any(b.cached for level in model.levels for b in level)]
    if not models:
        return None
    each = tuple(
        (
            model.number,
            model.variable,
            (
                f"for module in {model.variable}.modules():",
                '    if hasattr(module, "config"):',
                "        module.config.use_cache = False",
            ),
        )
        for model in models
    )
    lines = tuple(itertools.chain(*(rows for *_, rows in each)))
    text = "without the cache of keys and values, which may change last bits"
    return bench.proposal("settings", text, lines, Changes(lines=each), same=False, after_model=True)


def _others(bench: Bench) -> Iterator[Remedy]:
    survey = bench.survey
    if survey.zeroed:
        new = tuple(Edit(file, line, "zero_grad", (("set_to_none", 0, "True"),)) for file, line in survey.zeroed)
        lines = dict.fromkeys(source.line(*place).replace("=False", "=True") for place in survey.zeroed)
        # An optimizer skips a parameter whose gradient is None, but updates one whose gradient is 0.
        yield bench.proposal(
            *("settings", "zero_grad(set_to_none=True)", tuple(lines), Changes(set_to_none=True)),
            same=not survey.skips,
            edits=new,
        )
    steps = [o for o in survey.optimizers if o.torch and o.foreach]
    if not (survey.peak_in_optimizer and steps):
        return
    if all(o.has_fused for o in steps):
        yield _optimizer(bench, steps, "a fused optimizer", "fused", Changes(fused=True))
    one = "an optimizer that updates one parameter at a time"
    yield _optimizer(bench, steps, one, "foreach", Changes(foreach=False))


def _optimizer(bench: Bench, made: Sequence[Optimizer], text: str, option: str, changes: Changes) -> Remedy:
    """Return the remedy, not tried yet, of an option of optimizers: in the calls that make them, or set afterwards."""
    value = str(option == "fused")
    new = tuple(Edit(one.file, one.line, one.type, ((option, -1, value),)) for one in made)
    lines: list[str] = []
    for edit in new:
        try:
            lines += edits.calls((edit,))
        except CoopsimError:
            lines.append(f'for group in optimizer.param_groups: group["{option}"] = {value}')
    return bench.proposal("settings", text, tuple(dict.fromkeys(lines)), changes, same=False, edits=new)


def propose_sharding(bench: Bench) -> None:
    """Propose each setting of FSDP on its own."""
    bench.each(of_sharding(bench))


def of_sharding(bench: Bench) -> Iterator[Remedy]:
    """Yield a remedy, not tried yet, for each setting that the script's calls do not make already.

    The settings are: reduce gradients after each micro-batch, reshard after the forward pass, limit all-gathers,
    prefetch nothing. Nothing if a library makes a call, as the arguments come from its own settings.
    """
    if (at_once := _reduced_at_once(bench)) is not None:
        yield at_once
    sharding = bench.survey.sharding
    if not all(call.file for call in sharding):
        return
    if any(call.keeps for call in sharding):
        yield _sharding(bench, "FSDP reshards layers after their forward pass", Changes(reshard=True))
    if any(call.unlimited for call in sharding):
        yield _sharding(bench, "FSDP limits all-gathers", Changes(limit_gathers=True))
    if any(call.ahead for call in sharding):
        yield _sharding(bench, "FSDP prefetches nothing", Changes(no_prefetch=True))


def _reduced_at_once(bench: Bench) -> Remedy | None:
    deferred = bench.survey.deferred
    if not deferred or not all(file for _, file, _ in deferred):
        return None
    new = tuple(
        Edit(file, line, name, function="contextlib.nullcontext", imports="import contextlib")
        if name == "no_sync"
        else Edit(file, line, name, (("requires_gradient_sync", 0, "True"),))
        for name, file, line in deferred
    )
    try:
        said = edits.lines(new)
    except CoopsimError:
        said = tuple(dict.fromkeys(edits.abbreviated(one) for one in new))
    text = "FSDP reduces gradients after each micro-batch, which may change last bits"
    return bench.proposal("settings", text, said, Changes(sync_each=True), same=False, edits=new)


def _sharding(bench: Bench, text: str, changes: Changes) -> Remedy:
    every = dict.fromkeys(fsdp.lines(call, changes) for call in bench.survey.sharding)
    return bench.proposal("settings", text, tuple(itertools.chain(*every)), changes, same=True)
