"""Recompute all blocks, but keep the results of the ops that are costly to run again for the bytes they take."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from coopsim.fit import checkpointing, settings
from coopsim.fit.case import Case
from coopsim.fit.names import expressions
from coopsim.fit.remedy import Remedy
from coopsim.fit.survey import Model, Op

_TRIES = 3
_PRODUCT = re.compile(r"aten\.(\w*mm\.|\w*convolution|_scaled_dot_product)")


def find(case: Case) -> Iterator[Remedy]:
    """The ops that are most expensive per byte, as many as there is room for; if that beats plain checkpointing."""
    plain = case.trials.found.get("checkpointing")
    everything = checkpointing.most(case)
    if plain is None or everything is None:
        return
    report = case.trials.run(f"room beside all blocks, to keep ops: {everything.text}", everything.changes)
    if report is None or report.outcome != "ok":
        return
    room = case.trials.limit_bytes - report.context_bytes - report.peak_allocated_bytes
    assert case.survey.model is not None
    for save in _choices(case.survey.model.ops, room):
        wanted = proposal(case, everything, save)
        done = case.verify(wanted)
        if done is not None and done.time_ratio < plain.time_ratio:
            yield done
        elif done is not None:
            del case.trials.found[done.key]
        if done is not None or wanted.changes in case.trials.failed:
            return


def _choices(ops: Sequence[Op], room: int) -> list[list[str]]:
    """For the room, and for less of it, as the allocator may find no place for all that there seems to be."""
    found = [choose(ops, int(room * share)) for share in (1, 0.85, 0.7, 0.5)]
    different = [save for i, save in enumerate(found) if save and save not in found[:i]]
    return different[:_TRIES]


def choose(ops: Sequence[Op], room: int) -> list[str]:
    """Of products the most expensive per byte first, while there is room.

    What other ops make is cheap to make again, and may be changed in place, which what is kept must not be.

    >>> ops = [Op("aten.mm.default", 90, 10), Op("aten.gelu.default", 10, 40), Op("aten.bmm.default", 60, 10)]
    >>> choose(ops, 25), choose(ops, 15)
    (['aten.mm.default', 'aten.bmm.default'], ['aten.mm.default'])
    """
    found = []
    products = [op for op in ops if op.nbytes and _PRODUCT.match(op.name)]
    for op in sorted(products, key=lambda op: (-op.ns / op.nbytes, op.name)):
        if op.nbytes <= room:
            found.append(op.name)
            room -= op.nbytes
    return found


def proposal(case: Case, everything: Remedy, save: Sequence[str]) -> Remedy:
    """All blocks but for what these ops give."""
    model = case.survey.model
    assert model is not None
    names = ", ".join(name.removeprefix("aten.").removesuffix(".default") for name in save)
    lines = _lines(model, everything, save)
    what, colon, beside = everything.text.partition(":")
    selected = replace(
        everything,
        text=f"{what} but for the results of {names}{colon}{beside}",
        lines=lines,
        after_model=lines,
        changes=replace(everything.changes, save=tuple(save)),
    )
    # With a cache blocks do other ops when they are run again, which selective checkpointing does not allow.
    without = settings.without_cache(case)
    if without is None:
        return selected
    lines += without.lines
    return replace(selected, lines=lines, after_model=lines, changes=selected.changes.with_(without.changes))


def _lines(model: Model, everything: Remedy, save: Sequence[str]) -> tuple[str, ...]:
    ops = ", ".join(f"torch.ops.{name}" for name in save)
    lines = [
        "from functools import partial",
        "from torch.utils.checkpoint import create_selective_checkpoint_contexts",
        f"context_fn = partial(create_selective_checkpoint_contexts, [{ops}])",
    ]
    if everything.changes.own:
        options = '{"use_reentrant": False, "context_fn": context_fn}'
        lines.append(f"{model.variable}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={options})")
        return tuple(lines)
    package = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
    blocks = ", ".join(expressions(model, everything.changes.checkpoint))
    return (
        *lines,
        f"from {package} import apply_activation_checkpointing, checkpoint_wrapper",
        f"chosen = {{{blocks}}}",
        "wrapper = partial(checkpoint_wrapper, context_fn=context_fn)",
        f"apply_activation_checkpointing({model.variable}, wrapper, check_fn=lambda module: module in chosen)",
    )
