"""Selective checkpointing: recompute blocks, but keep the results of their products, which cost most per byte.

Products are those of matrices, convolutions and attention. Results of other ops are cheap to recompute, and may be
changed in place, which saved ones must not be. Blocks and levels are those of checkpointing.py.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from coopsim.fitting.bench import Bench
from coopsim.fitting.remedies import checkpointing, settings
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import ModelBlock

_PRODUCT = re.compile(r"aten\.(\w*mm\.|\w*convolution|_scaled_dot_product)")


def propose(bench: Bench) -> None:
    """Propose the selective recomputation of the fewest blocks that fits, if it is faster than plain checkpointing.

    It is tried only after plain checkpointing has been found to fit (Bench.found), and if costs promise a gain.
    """
    plain = bench.found.get("checkpointing")
    level = next(iter(checkpointing.levels(bench)), ())
    if plain is None or not products(level):
        return
    every = steps(level)
    frees = [nbytes for _, nbytes, _ in every]
    least = sum(ns for *_, ns in every[: checkpointing.guess(frees, bench.over_bytes) - 1])
    if 1 + least / max(bench.survey.step_ns, 1) >= plain.time_ratio:
        return
    done = checkpointing.fewest(bench, frees, lambda count: proposal(bench, count))
    if done is not None and done.time_ratio >= plain.time_ratio:
        bench.withdraw(done)


def products(level: Sequence[ModelBlock]) -> tuple[str, ...]:
    """Return the names of the products that the blocks run and that make something."""
    return tuple(sorted({op.name for block in level for op in block.ops if _PRODUCT.match(op.name) and op.nbytes}))


def steps(level: Sequence[ModelBlock]) -> list[tuple[ModelBlock, int, int]]:
    """Return the changes to a level, each with the bytes that it frees and the ns that it costs.

    First each block is recomputed but for its products, then each but the last recomputes them, too.

    >>> from coopsim.fitting.survey import OpSurvey
    >>> ops = (OpSurvey("aten.mm.default", 60, 10), OpSurvey("aten.gelu.default", 10, 40))
    >>> found = steps([ModelBlock(name, 60, False, False, False, ops) for name in "ab"])
    >>> [(block.name, nbytes, ns) for block, nbytes, ns in found]
    [('a', 50, 10), ('b', 50, 10), ('a', 10, 60)]
    """
    save = products(level)
    first, then = [], []
    for block in checkpointing.ordered(level):
        kept = [op for op in block.ops if op.name in save]
        nbytes, ns = sum(op.nbytes for op in kept), sum(op.ns for op in kept)
        first.append((block, block.kept_bytes - nbytes, sum(op.ns for op in block.ops) - ns))
        then.append((block, nbytes, ns))
    return [*first, *then[:-1]]


def proposal(bench: Bench, count: int) -> Remedy:
    """Return the remedy, not tried yet, that makes the first `count` of the changes to the outermost level (steps)."""
    level = checkpointing.levels(bench)[0]
    taken = [block for block, *_ in steps(level)[:count]]
    chosen, wholly = ([block for block in level if taken.count(block) >= times] for times in (1, 2))
    selected = checkpointing.these(bench, level, chosen, keep=products(level), wholly=wholly)
    # With a cache, recomputed blocks run other ops, which selective checkpointing does not allow.
    without = settings.without_cache(bench)
    if without is None:
        return selected
    lines = selected.lines + without.lines
    return replace(selected, lines=lines, after_model=lines, changes=selected.changes.with_(without.changes))
