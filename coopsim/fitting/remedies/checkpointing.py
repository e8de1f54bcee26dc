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


def these(
    bench: Bench,
    level: Sequence[ModelBlock],
    chosen: Sequence[ModelBlock],
    *,
    keep: Sequence[str] = (),
    wholly: Sequence[ModelBlock] = (),
) -> Remedy:
    """Return the remedy, not tried yet, that recomputes the `chosen` blocks, of which there must be one, of a `level`.

    A model whose blocks its own gradient_checkpointing_enable can recompute is changed by that, others by wrappers. The
    text names what may change results. keep: ops whose results are kept nevertheless, except in the blocks `wholly`.
    """
    models = [model for model in bench.survey.models if any(b.root == model.number for b in chosen)]
    means = {model.number: all(b.own for b in level if b.root == model.number) for model in models}
    text = f"recompute {len(chosen)} of {len(level)} blocks"
    if keep:
        names = ", ".join(name.removeprefix("aten.").removesuffix(".default") for name in keep)
        of_them = f" in {len(chosen) - len(wholly)} of them" if wholly else ""
        text += f",{of_them} keep the results of {names}"
        means = dict.fromkeys(means, all(means.values()) and not wholly)
    if any(b.statistics for b in chosen):
        text += ": batch normalisation counts their batches twice"
    cached = any(b.cached for b in chosen)
    if cached:
        text += ": without the cache of keys and values, which may change last bits"
    compiled = bool(bench.survey.report.compiled_graphs)
    if compiled:
        text += ": kernels are fused otherwise, which may change last bits"
    parts = []
    for model in models:
        within = [b for b in level if b.root == model.number]
        ours = [b for b in within if b in chosen]
        others = [b for b in within if b not in chosen]
        lines = _own(model, others, keep) if means[model.number] else _wrapped(model, ours, keep, wholly)
        parts.append((model.number, model.variable, lines))
    same = not cached and not compiled and not any(b.statistics for b in chosen)
    return bench.proposal("checkpointing", text, _once(parts), Changes(lines=tuple(parts)), same=same, after_model=True)


def _once(parts: Sequence[tuple[int, str, Sequence[str]]]) -> tuple[str, ...]:
    """Return the lines of all models, each line that is about none of them once."""
    lines = [line for _, _, rows in parts for line in rows]
    shared = ("from ", "context_fn ")
    return tuple(line for i, line in enumerate(lines) if not line.startswith(shared) or line not in lines[:i])


def _kept(keep: Sequence[str]) -> tuple[str, ...]:
    ops = ", ".join(f"torch.ops.{name}" for name in keep)
    return (
        "from functools import partial",
        "from torch.utils.checkpoint import create_selective_checkpoint_contexts",
        f"context_fn = partial(create_selective_checkpoint_contexts, [{ops}])",
    )


def _own(model: ModelSurvey, others: Sequence[ModelBlock], keep: Sequence[str]) -> tuple[str, ...]:
    options = '{"use_reentrant": False, "context_fn": context_fn}' if keep else '{"use_reentrant": False}'
    enable = f"{model.variable}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={options})"
    lines = (*(_kept(keep) if keep else ()), enable)
    if not others:
        return lines
    rest = expressions(model, [b.name for b in others])
    blocks = rest[0].removeprefix("*") if len(rest) == 1 and rest[0].startswith("*") else f"[{', '.join(rest)}]"
    return *lines, f"for block in {blocks}:", "    block.gradient_checkpointing = False"


def _wrapped(
    model: ModelSurvey, ours: Sequence[ModelBlock], keep: Sequence[str], wholly: Sequence[ModelBlock]
) -> tuple[str, ...]:
    def these(name: str, blocks: Sequence[ModelBlock]) -> str:
        return f"{name} = {{{', '.join(expressions(model, [b.name for b in blocks]))}}}"

    source = "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing"
    call = f"apply_activation_checkpointing({model.variable}, "
    plain = [b for b in ours if b in wholly]
    chosen = these("chosen", [b for b in ours if b not in plain])
    if not keep:
        return source, chosen, f"{call}check_fn=lambda module: module in chosen)"
    return (
        *_kept(keep),
        f"{source}, checkpoint_wrapper",
        chosen,
        "wrapper = partial(checkpoint_wrapper, context_fn=context_fn)",
        *((these("wholly", plain), f"{call}check_fn=lambda module: module in wholly)") if plain else ()),
        f"{call}wrapper, check_fn=lambda module: module in chosen)",
    )
