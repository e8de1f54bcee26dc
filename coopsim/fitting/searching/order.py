"""The order in which kinds of remedy are tried: cheap ones first, by what each promises to gain for its time."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from coopsim.fitting.batch import Batch
from coopsim.fitting.bench import Bench
from coopsim.fitting.remedies import (
    cards,
    checkpointing,
    compiled,
    live,
    loss,
    microbatches,
    optimizers,
    precision,
    selective,
    settings,
    switches,
    unused,
)
from coopsim.fitting.remedy import Remedy

_CHEAP = 3  #: runs; kinds that take more come after all others
_OF_LIVE = 1 / 3  #: the share of the time that live gets at most


@dataclass(frozen=True)
class RemedyKind:
    """A kind of remedy. saves_bytes: the most that it may save of the script's need; runs: how many trying it takes.

    A run is the time of one of the unchanged script. `propose` tries it. own: whether it is an option of the program.
    same: whether it may keep the same numbers. of_time: the share of the search's time that it gets at most.
    """

    name: str
    propose: Callable[[Bench], object]
    saves_bytes: float
    runs: float
    own: bool = False
    same: bool = False
    of_time: float = math.inf


def by_gain(kinds: list[RemedyKind], over_bytes: int) -> list[RemedyKind]:
    """Return the kinds by the share of `over_bytes` that they may save, per run; equal ones in the given order.

    Saving more than that gains nothing more. Those that take few runs come before those that take many, among these
    those that may save all of it before those that cannot, then options of the program before other kinds, and then
    what keeps the same numbers before what changes them.

    >>> sizes = (("a", 9, 3), ("b", 5, 1), ("c", 20, 2), ("live", 90, 6))
    >>> [kind.name for kind in by_gain([RemedyKind(name, print, saves, runs) for name, saves, runs in sizes], 9)]
    ['c', 'a', 'b', 'live']
    """

    def gain(kind: RemedyKind) -> tuple[bool, bool, bool, bool, float]:
        share = kind.saves_bytes / max(over_bytes, 1)
        return kind.runs <= _CHEAP, share >= 1, kind.own, kind.same, min(share, 1) / kind.runs

    return sorted(kinds, key=gain, reverse=True)


def _first(of_kind: Callable[[Bench], Iterable[Remedy]]) -> Callable[[Bench], object]:
    return lambda bench: bench.first_of(of_kind(bench))


def kinds(bench: Bench, batch: Batch | None, *, together: bool) -> list[RemedyKind]:
    """Return all kinds, in the order of a search for the first that works (docs/fit.md, "Which card?").

    What each may save is read from what the unchanged script held at its peak. together: kinds are tried at the same
    time, so that those which look at what another has found follow it.
    """
    survey = bench.survey
    held = survey.report.peak_by_kind
    activations, parameters = survey.activation_bytes, held.get("parameters", 0)
    states, logits = held.get("optimizer_state", 0), survey.logits_bytes
    everything = survey.needs_bytes - survey.report.context_bytes
    levels = checkpointing.levels(bench)
    kept = max((sum(block.kept_bytes for block in level) for level in levels), default=0)
    kept = kept or activations  # which is not seen in compiled blocks
    of_fsdp = held.get("gathered_layers", 0) + held.get("buckets", 0)
    of_fsdp += held.get("gradients", 0) * bool(survey.deferred)
    # After all blocks by an argument, fewer blocks are another row of the same kind.
    by_argument = bool(levels) and checkpointing.by_arguments(bench, levels[0]) is not None
    whole = RemedyKind("checkpointing", checkpointing.propose_whole, kept, runs=1, same=True)
    fewest = RemedyKind("checkpointing", checkpointing.propose, kept, 4 if by_argument else 3, same=True)
    keeping = RemedyKind("selective checkpointing", selective.propose, kept, runs=4, same=True)
    blocks = [whole, fewest, keeping]
    if together:
        chain = tuple(one.propose for one in blocks)
        blocks = [RemedyKind("checkpointing", lambda bench: [propose(bench) for propose in chain], kept, runs=1)]
    by_options = survey.given.options is not None and survey.given.options.adds_up
    in_parts = [] if batch is None else [partial(microbatches.propose, batch=batch)]
    smaller = RemedyKind("batch", _first(switches.smaller), activations, 1, own=True)
    return [
        RemedyKind("unused", unused.propose, held.get("unused", 0), runs=1, same=True),
        # The allocator's are tried only if a replay suffices.
        RemedyKind("the allocator", settings.propose_allocator, everything, 1, same=True),
        RemedyKind("checkpointing", _first(switches.recompute), kept, 1, own=True, same=True),
        *blocks[:2],
        *([] if bench.first or (batch and batch.template) else [smaller]),  # which card does this batch need?
        *(RemedyKind("micro-batches", propose, activations, 2, own=by_options) for propose in in_parts),
        RemedyKind("precision", _first(switches.half), activations / 2, 1, own=True),
        RemedyKind("optimizer", _first(switches.optimizer), states, 1, own=True),
        RemedyKind("settings", _first(switches.buckets), held.get("buckets", 0), 1, own=True),
        RemedyKind("precision", precision.propose, activations / 2, runs=1),
        RemedyKind("settings", settings.propose_others, max(2 * logits, parameters), runs=1),
        RemedyKind("settings", settings.propose_sharding, of_fsdp, runs=2, same=True),
        RemedyKind("compiled", compiled.propose, activations, runs=3),
        RemedyKind("compiled", _first(switches.compiled), activations / 2, runs=3),
        RemedyKind("optimizer", optimizers.propose, states, runs=1),
        RemedyKind("loss", loss.propose, loss.FUSED * logits, runs=1),
        *blocks[2:],
        # Whatever the weights are, a loss is often computed from logits in float32.
        RemedyKind("weights", precision.propose_weights, (everything - 3 * logits) / 2, runs=1),
        RemedyKind("cards", cards.propose, everything - activations, runs=4),
        RemedyKind("live", live.propose, activations, runs=12, of_time=_OF_LIVE),
    ]
