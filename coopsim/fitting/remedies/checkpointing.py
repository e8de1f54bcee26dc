"""Remedy "checkpointing": recompute the fewest of the model's repeated blocks that suffice.

A block is a module of which a model has several in a row, as the layers of a transformer. A level is a list of blocks:
the outermost level holds those that lie in no other block, the next those within them.
"""

from collections.abc import Callable, Sequence

from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.names import expressions
from coopsim.fitting.remedies import arguments
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import ModelBlock, ModelSurvey

_SIMILAR = 0.05  #: blocks whose kept bytes differ by less, as a fraction, are not reordered


def propose(bench: Bench) -> None:
    """Propose recomputation of the fewest blocks, of the outermost level that suffices; nothing if none does.

    Where TrainingArguments can turn it on, `propose_whole` comes before.
    """
    for i, level in enumerate(levels(bench)):
        whole = by_arguments(bench, level) if i == 0 else None
        if whole is not None and whole.key not in bench.found and not bench.failure(whole):
            continue  # all of them do not suffice
        frees = [block.kept_bytes for block in ordered(level)]
        if fewest(bench, frees, lambda count, level=level: proposal(bench, level, count)):  # type: ignore[misc]
            return


def most(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet, that recomputes all blocks of the outermost level; None if there are none."""
    every = levels(bench)
    return proposal(bench, every[0], len(every[0])) if every else None


def propose_whole(bench: Bench) -> None:
    """Propose recomputation of all blocks by TrainingArguments."""
    every = levels(bench)
    if every:
        bench.first_of([by_arguments(bench, every[0])])


def by_arguments(bench: Bench, level: Sequence[ModelBlock]) -> Remedy | None:
    """Return the remedy, not tried yet, by which Hugging Face's Trainer recomputes all blocks; None if it cannot."""
    if not level or not all(block.own for block in level):
        return None
    text = these(bench, level, level).text + " (gradient_checkpointing)"
    same = these(bench, level, level).same_numbers
    name = "gradient_checkpointing"
    return arguments.proposal(bench, "checkpointing", text, name, Changes(), same=same)


def levels(bench: Bench) -> list[tuple[ModelBlock, ...]]:
    """Return the blocks of all models that keep values for a backward pass, by level, the outermost level first.

    If none keeps any, they are those of the survey's first model. A model with fewer levels has its last in all others.
    """
    models = [model for model in bench.survey.models if model.keeps] or bench.survey.models[:1]
    deepest = max((len(model.levels) for model in models), default=0)
    return [
        tuple(block for model in models if model.levels for block in model.levels[min(i, len(model.levels) - 1)])
        for i in range(deepest)
    ]


def fewest(bench: Bench, frees: Sequence[int], remedy: Callable[[int], Remedy]) -> Remedy | None:
    """Find the fewest changes that suffice, by bisection from `guess`; None if all of them do not.

    `frees`: the bytes that each change frees, in their order. `remedy` returns the one, not tried yet, that makes so
    many of them.
    """
    n = len(frees)
    failing, fitting = 0, n + 1
    found: Remedy | None = None
    at = guess(frees, bench.over_bytes)
    while fitting - failing > 1:
        done = bench.fits(remedy(at))
        if done:
            fitting, found = at, done
            at -= 1
        elif fitting > n and at < n:
            failing, at = at, n  # next, check whether all suffice
            continue
        else:
            failing = at
        if not failing < at < fitting or found is None or fitting - at > 1:
            at = (failing + fitting) // 2
    return found


def guess(frees: Sequence[int], over_bytes: int) -> int:
    """Return how many changes to try first: as many as free `over_bytes`, plus the block that is being recomputed.

    `frees`: the bytes that each frees, in their order. At most the number of all.

    >>> guess([10, 10, 10, 10], 15), guess([10, 10], 1000)
    (3, 2)
    """
    total = 0
    for i, nbytes in enumerate(frees):
        total += nbytes
        if total >= over_bytes:
            return min(i + 2, len(frees))
    return len(frees)


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


def proposal(bench: Bench, level: Sequence[ModelBlock], count: int) -> Remedy:
    """Return the remedy, not tried yet, that recomputes the first `count` of the blocks `ordered(level)`."""
    picked = set(ordered(level)[:count])
    return these(bench, level, [b for b in level if b in picked])


def these(bench: Bench, level: Sequence[ModelBlock], chosen: Sequence[ModelBlock]) -> Remedy:
    """Return the remedy, not tried yet, that recomputes the `chosen` blocks, of which there must be one, of a `level`.

    A model whose blocks its own gradient_checkpointing_enable can recompute is changed by that, others by wrappers. The
    text names what may change results.
    """
    models = [model for model in bench.survey.models if any(b.root == model.number for b in chosen)]
    root = models[0].number
    means = {model.number: all(b.own for b in level if b.root == model.number) for model in models}
    changes = Changes(root=root, checkpoint=tuple(tagged(b, root) for b in chosen), own=any(means.values()))
    text = f"recompute {len(chosen)} of {len(level)} blocks"
    if any(b.statistics for b in chosen):
        text += ": batch normalisation counts their batches twice"
    cached = any(b.cached for b in chosen)
    if cached:
        text += ": without the cache of keys and values, which may change last bits"
    compiled = bool(bench.survey.report.compiled_graphs)
    if compiled:
        text += ": kernels are fused otherwise, which may change last bits"
    lines: list[str] = []
    for model in models:
        within = [b for b in level if b.root == model.number]
        ours = [b for b in within if b in chosen]
        others = [b for b in within if b not in chosen]
        lines += _own(model, others) if means[model.number] else _wrapped(model, ours)
    same = not cached and not compiled and not any(b.statistics for b in chosen)
    return bench.proposal("checkpointing", text, once(lines), changes, same=same, after_model=True)


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
