"""Remedy "checkpointing": recompute the fewest of the model's repeated blocks that suffice.

A block is a module of which a model has several in a row, as the layers of a transformer. A level is a list of blocks:
the outermost level holds those that lie in no other block, the next those within them.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.names import expressions
from coopsim.fitting.proposals import Case, Keep, Proposals, Request, first, fits
from coopsim.fitting.remedies import arguments
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import ModelBlock, ModelSurvey

_SIMILAR = 0.05  #: blocks whose kept bytes differ by less, as a fraction, are not reordered


def propose(case: Case) -> Proposals:
    """Propose recomputation of the fewest blocks, of the outermost level that suffices; nothing if none does.

    Where TrainingArguments can turn it on, `propose_whole` comes before.
    """
    for i, level in enumerate(levels(case)):
        whole = by_arguments(case, level) if i == 0 else None
        if whole is not None and whole.key not in case.found and not case.failure(whole):
            continue  # all of them do not suffice
        if found := (yield from fewest(case, level, partial(proposal, case, level))):
            yield Keep(found[-1])
            return


def most(case: Case) -> Remedy | None:
    """Return the remedy, not tried yet, that recomputes all blocks of the outermost level; None if there are none."""
    every = levels(case)
    return proposal(case, every[0], len(every[0])) if every else None


def propose_whole(case: Case) -> Proposals:
    """Propose recomputation of all blocks by TrainingArguments."""
    every = levels(case)
    yield from first(by_arguments(case, every[0]) if every else None)


def by_arguments(case: Case, level: Sequence[ModelBlock]) -> Remedy | None:
    """Return the remedy, not tried yet, by which Hugging Face's Trainer recomputes all blocks; None if it cannot."""
    if not level or not all(block.own for block in level):
        return None
    text = these(case, level, level).text + " (gradient_checkpointing)"
    same = these(case, level, level).same_numbers
    name = "gradient_checkpointing"
    return arguments.proposal(case, "checkpointing", text, name, Changes(), same=same)


def levels(case: Case) -> list[tuple[ModelBlock, ...]]:
    """Return the blocks of all models that keep values for a backward pass, by level, the outermost level first.

    If none keeps any, they are those of the survey's first model. A model with fewer levels has its last in all others.
    """
    models = [model for model in case.survey.models if model.keeps] or case.survey.models[:1]
    deepest = max((len(model.levels) for model in models), default=0)
    return [
        tuple(block for model in models if model.levels for block in model.levels[min(i, len(model.levels) - 1)])
        for i in range(deepest)
    ]


def fewest(
    case: Case, level: Sequence[ModelBlock], remedy: Callable[[int], Remedy]
) -> Generator[Request, Any, list[Remedy]]:
    """Find the fewest blocks of a level that suffice, by bisection from `guess`.

    `remedy` returns the one, not tried yet, that changes so many blocks, the first of `ordered`. Returns the
    remedies that were seen to suffice, that with the fewest blocks last; [] if all blocks do not suffice.
    """
    n = len(level)
    failing, fitting = 0, n + 1
    found: list[Remedy] = []
    at = guess([b.kept_bytes for b in ordered(level)], case.over_bytes)
    while fitting - failing > 1:
        done = yield from fits(remedy(at))
        if done:
            fitting = at
            found.append(done)
            at -= 1
        elif fitting > n and at < n:
            failing, at = at, n  # next, check whether all suffice
            continue
        else:
            failing = at
        if not failing < at < fitting or not found or fitting - at > 1:
            at = (failing + fitting) // 2
    return found


def guess(kept: Sequence[int], over_bytes: int) -> int:
    """Return how many blocks to try first: as many as keep `over_bytes`, plus the one in memory while it is recomputed.

    `kept`: the bytes that each block keeps, in the order in which they are chosen. At most the number of all blocks.

    >>> guess([10, 10, 10, 10], 15), guess([10, 10], 1000)
    (3, 2)
    """
    total = 0
    for i, nbytes in enumerate(kept):
        total += nbytes
        if total >= over_bytes:
            return min(i + 2, len(kept))
    return len(kept)


def ordered(level: Sequence[ModelBlock]) -> list[ModelBlock]:
    """Return the blocks in the order in which to choose them: the largest first, by the bytes that they keep.

    Those within 5 % of the largest left are in the model's order: the first blocks of a model are recomputed last, when
    most memory has been freed.

    >>> blocks = [ModelBlock(name, kept, False, False, False) for name, kept in (("a", 99), ("b", 100), ("c", 200))]
    >>> [block.name for block in ordered(blocks)]
    ['c', 'a', 'b']
    """
    left = list(level)
    found: list[ModelBlock] = []
    while left:
        largest = max(b.kept_bytes for b in left)
        like = [b for b in left if b.kept_bytes >= largest * (1 - _SIMILAR)]
        found += like
        left = [b for b in left if b not in like]
    return found


def proposal(case: Case, level: Sequence[ModelBlock], count: int) -> Remedy:
    """Return the remedy, not tried yet, that recomputes the first `count` of the blocks `ordered(level)`."""
    picked = set(ordered(level)[:count])
    return these(case, level, [b for b in level if b in picked])


def these(case: Case, level: Sequence[ModelBlock], chosen: Sequence[ModelBlock]) -> Remedy:
    """Return the remedy, not tried yet, that recomputes the `chosen` blocks, of which there must be one, of a `level`.

    A model whose blocks its own gradient_checkpointing_enable can recompute is changed by that, others by wrappers. The
    text names what may change results.
    """
    models = [model for model in case.survey.models if any(b.root == model.number for b in chosen)]
    root = models[0].number
    means = {model.number: all(b.own for b in level if b.root == model.number) for model in models}
    changes = Changes(root=root, checkpoint=tuple(tagged(b, root) for b in chosen), own=any(means.values()))
    text = f"recompute {len(chosen)} of {len(level)} blocks"
    if any(b.statistics for b in chosen):
        text += ": batch normalisation counts their batches twice"
    cached = any(b.cached for b in chosen)
    if cached:
        text += ": without the cache of keys and values, which may change last bits"
    compiled = bool(case.survey.report.compiled_graphs)
    if compiled:
        text += ": kernels are fused otherwise, which may change last bits"
    lines: list[str] = []
    for model in models:
        within = [b for b in level if b.root == model.number]
        ours = [b for b in within if b in chosen]
        others = [b for b in within if b not in chosen]
        lines += _own(model, others) if means[model.number] else _wrapped(model, ours)
    same = not cached and not compiled and not any(b.statistics for b in chosen)
    return case.proposal("checkpointing", text, once(lines), changes, same=same, after_model=True)


def tagged(block: ModelBlock, root: int) -> str:
    """Return a block's name in Changes.checkpoint, with its model's number in front unless that is `root` ("5:h.1")."""
    return block.name if block.root == root else f"{block.root}:{block.name}"


def once(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines without those `from … import` lines that an earlier line equals."""
    return tuple(line for i, line in enumerate(lines) if not line.startswith("from ") or line not in lines[:i])


def _own(model: ModelSurvey, others: Sequence[ModelBlock]) -> tuple[str, ...]:
    enable = f'{model.variable}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{"use_reentrant": False}})'
    if not others:
        return (enable,)
    rest = expressions(model, [b.name for b in others])
    blocks = rest[0].removeprefix("*") if len(rest) == 1 and rest[0].startswith("*") else f"[{', '.join(rest)}]"
    return enable, f"for block in {blocks}:", "    block.gradient_checkpointing = False"


def _wrapped(model: ModelSurvey, chosen: Sequence[ModelBlock]) -> tuple[str, ...]:
    blocks = ", ".join(expressions(model, [b.name for b in chosen]))
    return (
        "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing",
        f"chosen = {{{blocks}}}",
        f"apply_activation_checkpointing({model.variable}, check_fn=lambda module: module in chosen)",
    )
