"""Selective checkpointing: recompute blocks, but keep the results of the ops with the highest cost per byte.

Blocks and levels are those of checkpointing.py.
"""

import itertools
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.names import expressions
from coopsim.fitting.figures import ratio
from coopsim.fitting.proposals import Case, Keep, Proposals, Request, Run, Withdraw, fits, trial
from coopsim.fitting.remedies import checkpointing, settings
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import ModelBlock, ModelSurvey
from coopsim.run import Report

_TRIES = 5  #: most runs to find how many blocks keep results
_PRODUCT = re.compile(r"aten\.(\w*mm\.|\w*convolution|_scaled_dot_product)")
_IMPORT = "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import "


@dataclass(frozen=True)
class SavedOps:
    """The ops whose results to save, and how many of `steps` to take, from a model that recomputes nothing.

    A step changes a block to recompute all but these ops, or a block that does so to recompute all of it.
    """

    save: tuple[str, ...]
    depth: int


def propose(case: Case) -> Proposals:
    """Propose the cheapest selective recomputation found that fits, if it is faster than plain checkpointing.

    It is tried only after plain checkpointing has been found to fit (Case.found), and if costs promise a gain.
    """
    plain = case.found.get("checkpointing")
    everything = checkpointing.most(case)
    if plain is None or everything is None:
        return
    report: Report | None = yield Run(f"room beside all blocks, to keep ops: {everything.text}", everything.changes)
    if report is None or report.outcome != "ok":
        return
    room = case.limit_bytes - report.context_bytes - report.peak_allocated_bytes
    level = checkpointing.levels(case)[0]
    wanted, saved_ns = choose(level, room)
    expected = ratio(report, case.survey, everything.changes) - saved_ns / max(case.survey.step_ns, 1)
    if wanted is None or expected >= plain.time_ratio:
        return
    least = yield from _least(case, wanted, len(level))
    more = yield from _one_more(case, level, wanted.save)
    done = [remedy for remedy in (least, more) if remedy is not None]
    for remedy in done:
        yield Withdraw(remedy)
    best = min(done, key=lambda remedy: remedy.time_ratio, default=None)
    if best is not None and best.time_ratio < plain.time_ratio:
        yield Keep(best)


def _one_more(case: Case, level: Sequence[ModelBlock], save: Sequence[str]) -> Generator[Request, Any, Remedy | None]:
    """Return recomputation of all blocks that saves the smallest other product, too, if it fits.

    It may take less memory than without, as recomputation ends at the last op that is needed.
    """
    products = _products(level)
    others = [name for name in _ranking(level) if name not in save]
    if not others:
        return None
    wider = (*save, min(others, key=lambda name: products[name][1]))
    if sorted(i for i, *_ in steps(level, wider)[: len(level)]) != list(range(len(level))):
        return None
    return (yield from fits(proposal(case, SavedOps(wider, len(level)))))


def _least(case: Case, wanted: SavedOps, n: int) -> Generator[Request, Any, Remedy | None]:
    """Find the smallest depth that fits: from `wanted` in growing strides, then by bisection, in _TRIES runs at most.

    `n` is the number of blocks. None if no depth was seen to fit.
    """
    failing, fitting, best, step, at = 0, 2 * n, None, 1, wanted.depth
    for _ in range(_TRIES):
        outcome = yield from trial(proposal(case, replace(wanted, depth=at)))
        if outcome.failure:
            return best
        if outcome.done is not None:
            fitting, best = at, outcome.done
        else:
            failing = at
        if fitting - failing <= 1:
            return best
        if failing and best is not None:
            at = (failing + fitting) // 2
        else:
            at = max(fitting - step, 1) if best is not None else min(failing + step, 2 * n - 1)
            step *= 2
    return best


def _ranking(level: Sequence[ModelBlock]) -> list[str]:
    """Return the names of the blocks' products (_PRODUCT), the most expensive per byte first.

    Results of other ops are cheap to recompute, and may be changed in place, which saved ones must not be.

    >>> from coopsim.fitting.survey import OpSurvey
    >>> figures = ("mm", 60, 10), ("gelu", 10, 40), ("bmm", 90, 10)
    >>> ops = tuple(OpSurvey(f"aten.{op}.default", ns, nbytes) for op, ns, nbytes in figures)
    >>> _ranking([ModelBlock("a", 60, False, False, False, ops)])
    ['aten.bmm.default', 'aten.mm.default']
    """
    costs = {name: ns / nbytes for name, (ns, nbytes) in _products(level).items()}
    return sorted(costs, key=lambda name: (-costs[name], name))


def _products(level: Sequence[ModelBlock]) -> dict[str, tuple[int, int]]:
    """Return (ns, bytes) of each product that makes something, summed over all blocks, by name."""
    total: dict[str, tuple[int, int]] = {}
    for op in itertools.chain(*(block.ops for block in level)):
        if _PRODUCT.match(op.name):
            ns, nbytes = total.get(op.name, (0, 0))
            total[op.name] = ns + op.ns, nbytes + op.nbytes
    return {name: (ns, nbytes) for name, (ns, nbytes) in total.items() if nbytes}


def choose(level: Sequence[ModelBlock], room: int) -> tuple[SavedOps | None, int]:
    """Return the choice that fits in `room` bytes and saves most time against recomputing all, and the ns saved.

    The room is for what blocks keep beyond full recomputation. (None, 0) if nothing fits.

    >>> from coopsim.fitting.survey import OpSurvey
    >>> ops = (OpSurvey("aten.mm.default", 60, 10), OpSurvey("aten.gelu.default", 10, 40))
    >>> blocks = [ModelBlock(name, 60, False, False, False, ops) for name in "ab"]
    >>> choose(blocks, 10), choose(blocks, 70), choose(blocks, 5)
    ((SavedOps(save=('aten.mm.default',), depth=3), 60), (SavedOps(save=('aten.mm.default',), depth=1), 130), (None, 0))
    """
    ranked = _ranking(level)
    best: tuple[SavedOps | None, int] = (None, 0)
    for k in range(1, len(ranked) + 1):
        save = tuple(ranked[:k])
        nbytes = sum(block.kept_bytes for block in level)
        ns = sum(op.ns for block in level for op in block.ops)
        for depth, (_, freed, cost) in enumerate(steps(level, save)[:-1], 1):
            nbytes, ns = nbytes - freed, ns - cost
            if nbytes <= room:
                best = max(best, (SavedOps(save, depth), ns), key=lambda found: found[1])
                break
    return best


def steps(level: Sequence[ModelBlock], save: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return the steps of a level, two per block, by ns per byte freed, ascending.

    Each is (index of the block, bytes that it frees, ns that it costs). Of equal ones the first in the model comes
    first.

    >>> from coopsim.fitting.survey import OpSurvey
    >>> ops = (OpSurvey("aten.mm.default", 60, 10), OpSurvey("aten.gelu.default", 10, 40))
    >>> steps([ModelBlock(name, 60, False, False, False, ops) for name in "ab"], ["aten.mm.default"])
    [(0, 50, 10), (1, 50, 10), (0, 10, 60), (1, 10, 60)]
    """
    left = []
    for i, block in enumerate(level):
        saved = [op for op in block.ops if op.name in save]
        nbytes, ns = sum(op.nbytes for op in saved), sum(op.ns for op in saved)
        total_ns = sum(op.ns for op in block.ops)
        left.append([(i, block.kept_bytes - nbytes, total_ns - ns), (i, nbytes, ns)])
    found = []
    while any(left):
        first = min((own[0] for own in left if own), key=lambda step: round(1024 * step[2] / max(step[1], 1)))
        found.append(left[first[0]].pop(0))
    return found


def proposal(case: Case, choice: SavedOps) -> Remedy:
    """Return the remedy, not tried yet, that recomputes blocks of the outermost level as `choice` says."""
    level = checkpointing.levels(case)[0]
    taken = [i for i, *_ in steps(level, choice.save)[: choice.depth]]
    base = checkpointing.these(case, level, [block for i, block in enumerate(level) if i in taken])
    root = base.changes.root
    plain = tuple(checkpointing.tagged(block, root) for i, block in enumerate(level) if taken.count(i) == 2)
    names = ", ".join(name.removeprefix("aten.").removesuffix(".default") for name in choice.save)
    what, colon, beside = base.text.partition(":")
    of_them = f" in {len(base.changes.checkpoint) - len(plain)} of them" if plain else ""
    own = base.changes.own and not plain and not any(line.startswith("apply_") for line in base.lines)
    changes = replace(base.changes, save=choice.save, plain=plain, own=own)
    lines = _lines(case.survey.models, base.lines, changes)
    selected = replace(
        base,
        text=f"{what},{of_them} keep the results of {names}{colon}{beside}",
        lines=lines,
        after_model=lines,
        changes=changes,
    )
    # With a cache, recomputed blocks run other ops, which selective checkpointing does not allow.
    without = settings.without_cache(case)
    if without is None:
        return selected
    lines += without.lines
    return replace(selected, lines=lines, after_model=lines, changes=changes.with_(without.changes))


def _lines(models: Sequence[ModelSurvey], base: Sequence[str], changes: Changes) -> tuple[str, ...]:
    """Return the lines to paste, in place of `base`, which recompute the same blocks wholly."""
    ops = ", ".join(f"torch.ops.{name}" for name in changes.save)
    lines = [
        "from functools import partial",
        "from torch.utils.checkpoint import create_selective_checkpoint_contexts",
        f"context_fn = partial(create_selective_checkpoint_contexts, [{ops}])",
    ]
    if changes.own:
        options = '{"use_reentrant": False}'
        own = (line.replace(options, '{"use_reentrant": False, "context_fn": context_fn}') for line in base)
        return (*lines, *own)
    for model in models:
        chosen, plain = (changes.of_model(model.number, names) for names in (changes.checkpoint, changes.plain))
        if chosen:
            lines += _wrapped(model, [name for name in chosen if name not in plain], plain)
    return checkpointing.once(lines)


def _wrapped(model: ModelSurvey, kept: Sequence[str], plain: Sequence[str]) -> list[str]:
    lines = [
        f"{_IMPORT}apply_activation_checkpointing, checkpoint_wrapper",
        f"chosen = {{{', '.join(expressions(model, kept))}}}",
        "wrapper = partial(checkpoint_wrapper, context_fn=context_fn)",
    ]
    call = f"apply_activation_checkpointing({model.variable}, "
    if plain:
        wholly = f"wholly = {{{', '.join(expressions(model, plain))}}}"
        lines += [wholly, f"{call}check_fn=lambda module: module in wholly)"]
    return [*lines, f"{call}wrapper, check_fn=lambda module: module in chosen)"]
