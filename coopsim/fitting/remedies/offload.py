"""Remedy "offload": what the fewest repeated blocks save for the backward pass goes to the host's memory.

By PyTorch's `torch.autograd.graph.save_on_cpu` around each of these blocks, with page-locked memory. Its copies are on
the stream of the ops, so that nothing hides them: a remedy for scripts that live cannot follow. Blocks and levels are
those of checkpointing.py.
"""

import os
from collections.abc import Sequence
from functools import partial

from coopsim.base.text import human
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.names import expressions
from coopsim.fitting.proposals import Case, Keep, Note, Proposals
from coopsim.fitting.remedies import checkpointing
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import ModelBlock


def propose(case: Case) -> Proposals:
    """Propose to offload the fewest blocks, of the outermost level that suffices.

    It has more blocks where that was seen to take less time, as where the allocator has to give memory back otherwise.
    Nothing if live has been found to fit (Case.found), which hides copies and keeps the numbers, nor if no
    level suffices. Nothing is tried for compiled scripts: Inductor's kernels assert the layout of what they saved.
    """
    if "live" in case.found or case.survey.report.compiled_graphs:
        return
    for level in checkpointing.levels(case):
        if found := (yield from checkpointing.fewest(case, level, partial(proposal, case, level))):
            best = min(reversed(found), key=lambda remedy: remedy.time_ratio)
            yield from shortage(best)
            yield Keep(best)
            return


def proposal(case: Case, level: Sequence[ModelBlock], count: int) -> Remedy:
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


def shortage(remedy: Remedy) -> Proposals:
    """Say in a note if a remedy takes more of the host's memory than this machine has."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if remedy.host_bytes > has:
        takes = f"{remedy.kind} takes {human(remedy.host_bytes)} of the host's memory"
        yield Note(f"{takes}; this machine has {human(has)}")
