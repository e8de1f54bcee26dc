"""Remedies "settings": of the allocator, FSDP, how the optimizer steps, how gradients are cleared, and the like."""

import functools
import itertools
import os
from collections.abc import Iterator

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import fsdp, source
from coopsim.fitting.proposals import Case, Proposals, Replay, first
from coopsim.fitting.remedies import loss, unused
from coopsim.fitting.remedy import Remedy

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
#: The allocator's settings, in the order of trials.
_SETTINGS = ("expandable_segments:True", "garbage_collection_threshold:0.8", "max_split_size_mb:128")


def propose_allocator(case: Case) -> Proposals:
    """Propose a setting of PyTorch's allocator.

    The recorded requests are replayed with each setting; the script is run with the first that serves them. A script
    that is judged by a long run is run with expandable segments, which helps most there.
    """
    report = case.survey.report
    if report.context_bytes + report.peak_allocated_bytes > case.limit_bytes:
        return
    if report.replay is not None:
        yield from first(_expandable(case))
        return
    for setting in _SETTINGS if case.replays else ():
        wanted = _with(case, setting)
        if (yield Replay(wanted.changes)) <= case.limit_bytes:
            yield from first(wanted)
            return


def propose_others(case: Case) -> Proposals:
    """Propose every other setting that may suffice, each on its own.

    They are: no cache of keys and values, the loss in chunks, how gradients are cleared, how the optimizer steps.
    """
    in_chunks = loss.in_chunks(case) if loss.may_suffice(case) else None
    for wanted in (without_cache(case), in_chunks, *_others(case)):
        yield from first(wanted)


def together(case: Case, *, optimizer: bool = True) -> Remedy | None:
    """Return one remedy, not tried yet, of all settings that may help; there is always one, of the allocator.

    That of the cache is left out: recomputation, with which this is combined, turns it off by itself. optimizer:
    whether to include settings of how the optimizer steps.
    """
    every = (_expandable(case), loss.in_chunks(case), *_others(case), *of_sharding(case), *unused.all_of(case))
    parts = [part for part in every if part is not None]
    if not optimizer:
        parts = [p for p in parts if p.changes.foreach is None and p.changes.fused is None]
    if any(p.changes.fused for p in parts):
        parts = [p for p in parts if p.changes.foreach is None]
    return functools.reduce(Remedy.with_, parts)


def _expandable(case: Case) -> Remedy:
    return _with(case, _SETTINGS[0])


def _with(case: Case, setting: str) -> Remedy:
    value = ",".join(filter(None, [os.environ.get(_VARIABLE), setting]))
    changes = Changes(variables=((_VARIABLE, value),))
    return case.proposal("settings", setting, (line(value),), changes, same=True)


def line(value: str) -> str:
    """Return the shell line that sets the allocator's configuration to `value`."""
    return f"export {_VARIABLE}={value}"


def without_cache(case: Case) -> Remedy | None:
    """Return the remedy, not tried yet, without the cache of keys and values that models of transformers keep.

    None if no model has one.
    """
    models = [model for model in case.survey.models if any(b.cached for level in model.levels for b in level)]
    if not models:
        return None
    each = (
        (
            f"for module in {model.variable}.modules():",
            '    if hasattr(module, "config"):',
            "        module.config.use_cache = False",
        )
        for model in models
    )
    lines = tuple(itertools.chain(*each))
    text = "without the cache of keys and values, which may change last bits"
    return case.proposal("settings", text, lines, Changes(no_cache=True), same=False, after_model=True)


def _others(case: Case) -> Iterator[Remedy]:
    survey = case.survey
    if survey.zeroed:
        lines = tuple(dict.fromkeys(source.line(*place).replace("=False", "=True") for place in survey.zeroed))
        # An optimizer skips a parameter whose gradient is None, but updates one whose gradient is 0.
        changes = Changes(set_to_none=True)
        yield case.proposal("settings", "zero_grad(set_to_none=True)", lines, changes, same=not survey.skips)
    steps = [o for o in survey.optimizers if o.torch and o.foreach]
    if not (survey.peak_in_optimizer and steps):
        return
    if all(o.has_fused for o in steps):
        yield case.proposal(
            "settings", "a fused optimizer", _optimizer(steps, "fused=True"), Changes(fused=True), same=False
        )
    yield case.proposal(
        "settings",
        "an optimizer that updates one parameter at a time",
        _optimizer(steps, "foreach=False"),
        Changes(foreach=False),
        same=False,
    )


def _optimizer(optimizers: list, option: str) -> tuple[str, ...]:  # type: ignore[type-arg]
    """Return the calls that make the optimizers, with the option added; if unknown, lines that set it afterwards."""
    lines = []
    for made in optimizers:
        call = source.with_argument(made.file, made.line, made.type, option)
        name, value = option.split("=")
        lines.append(call or f'for group in optimizer.param_groups: group["{name}"] = {value}')
    return tuple(dict.fromkeys(lines))


def propose_sharding(case: Case) -> Proposals:
    """Propose each setting of FSDP on its own."""
    for one in of_sharding(case):
        yield from first(one)


def of_sharding(case: Case) -> Iterator[Remedy]:
    """Yield a remedy, not tried yet, for each setting that the script's calls do not make already.

    The settings are: reshard after the forward pass, limit all-gathers, prefetch nothing. Nothing if a library makes a
    call, as the arguments come from its own settings.
    """
    calls = case.survey.sharding
    if not all(call.file for call in calls):
        return
    if any(call.keeps for call in calls):
        yield _sharding(case, "FSDP reshards layers after their forward pass", Changes(reshard=True))
    if any(call.unlimited for call in calls):
        yield _sharding(case, "FSDP limits all-gathers", Changes(limit_gathers=True))
    if any(call.ahead for call in calls):
        yield _sharding(case, "FSDP prefetches nothing", Changes(no_prefetch=True))


def _sharding(case: Case, text: str, changes: Changes) -> Remedy:
    calls = dict.fromkeys(fsdp.lines(call, changes) for call in case.survey.sharding)
    return case.proposal("settings", text, tuple(itertools.chain(*calls)), changes, same=True)
