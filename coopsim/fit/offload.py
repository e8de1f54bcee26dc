"""Remedy "offload": what the fewest repeated blocks save for the backward pass goes to the host's memory.

By PyTorch's `torch.autograd.graph.save_on_cpu` around each of these blocks, with page-locked memory. Its copies are on
the stream of the ops, so that nothing hides them: a remedy for scripts that live cannot follow. Blocks and levels are
those of checkpointing.py.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from coopsim.fit import checkpointing
from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.host import shortage
from coopsim.fit.names import expressions
from coopsim.fit.remedy import Remedy
from coopsim.fit.survey import Block


def find(case: Case) -> Iterator[Remedy]:
    """Yield one remedy, verified by a run: it offloads the fewest blocks, of the outermost level that suffices.

    It has more blocks where that was seen to take less time, as where the allocator has to give memory back otherwise.
    Yields nothing if live has been found to fit (Trials.found), which hides copies and keeps the numbers, nor if no
    level suffices. Nothing is tried for compiled scripts: Inductor's kernels assert the layout of what they saved.
    """
    if "live" in case.trials.found or case.survey.report.compiled_graphs:
        return
    for level in checkpointing.levels(case):
        if found := checkpointing.fewest(case, level, partial(proposal, case, level)):
            best = min(reversed(found), key=lambda remedy: remedy.time_ratio)
            case.trials.found[best.key] = best
            case.trials.notes += shortage(best)
            yield best
            return


def proposal(case: Case, level: Sequence[Block], count: int) -> Remedy:
    """Return the remedy, not tried yet, that offloads the first `count` of the blocks of a level, the largest first.

    Of several models, those with chosen blocks get a line each. Numbers may change: save_on_cpu gives back contiguous
    tensors, and other layouts run other kernels.
    """
    picked = set(checkpointing.ordered(level)[:count])
    chosen = [block for block in level if block in picked]
    models = [model for model in case.survey.models if any(b.root == model.number for b in chosen)]
    root = models[0].number
    changes = Changes(root=root, on_host=tuple(checkpointing.tagged(b, root) for b in chosen))
    lines: list[str] = []
    for model in models:
        blocks = ", ".join(expressions(model, [b.name for b in chosen if b.root == model.number]))
        lines += [
            "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing, "
            "offload_wrapper",
            f"chosen = {{{blocks}}}",
            f"apply_activation_checkpointing({model.variable}, offload_wrapper, "
            "check_fn=lambda module: module in chosen)",
        ]
    text = f"save_on_cpu around {len(chosen)} of {len(level)} blocks: copies are contiguous, which may change last bits"
    return case.proposal("offload", text, checkpointing.once(lines), changes, same=False, after_model=True)
