"""The order in which kinds of remedy are tried: by what each promises to gain, for the time that it takes to try."""

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class RemedyKind:
    """A kind of remedy. saves_bytes: the most that it may save of the script's need; runs: how many trying it takes.

    A run is the time of one of the unchanged script. `propose` tries it.
    """

    propose: Callable[[], object]
    saves_bytes: float
    runs: float


def by_gain(kinds: list[RemedyKind], over_bytes: int) -> list[RemedyKind]:
    """Return the kinds by the share of `over_bytes` that they may save, per run; equal ones in the given order.

    Saving more than that gains nothing more. Those that may save all of it come before those that cannot.

    >>> kinds = [RemedyKind(name.upper, saves, runs) for name, saves, runs in (("a", 9, 3), ("b", 5, 1), ("c", 20, 2))]
    >>> [kind.propose() for kind in by_gain(kinds, 9)]
    ['C', 'A', 'B']
    """

    def gain(kind: RemedyKind) -> tuple[bool, float]:
        share = kind.saves_bytes / max(over_bytes, 1)
        return share >= 1, min(share, 1) / kind.runs

    return sorted(kinds, key=gain, reverse=True)


def kinds(bench: Bench, batch: Batch | None, *, together: bool) -> list[RemedyKind]:
    """Return all kinds, in the order of a search for the first that works (docs/fit.md, "Which card?").

    What each may save is read from what the unchanged script held at its peak. together: kinds are tried at the same
    time, so that those which look at what another has found follow it.
    """
    survey = bench.survey
    held = survey.report.peak_by_kind
    activations, parameters = survey.activation_bytes, held.get("parameters", 0)
    everything = survey.needs_bytes - survey.report.context_bytes
    levels = checkpointing.levels(bench)
    kept = max((sum(block.kept_bytes for block in level) for level in levels), default=0)
    of_fsdp = held.get("gathered_layers", 0) + held.get("buckets", 0)
    # After all blocks by an argument, fewer blocks are another row of the same kind.
    by_argument = bool(levels) and checkpointing.by_arguments(bench, levels[0]) is not None
    blocks = [
        RemedyKind(lambda: checkpointing.propose_whole(bench), kept, runs=1),
        RemedyKind(lambda: checkpointing.propose(bench), kept, runs=7 if by_argument else 3),
        RemedyKind(lambda: selective.propose(bench), kept, runs=7),
    ]
    whole, fewest, keeping = (
        ([RemedyKind(lambda: [k.propose() for k in blocks], kept, 1)], [], [])
        if together
        else ([one] for one in blocks)
    )
    in_batches = [] if batch is None else [RemedyKind(lambda: microbatches.propose(bench, batch), activations, runs=2)]
    states = held.get("optimizer_state", 0)
    own = [
        RemedyKind(lambda: bench.first_of(switches.recompute(bench)), kept or activations, runs=1),
        RemedyKind(lambda: bench.first_of(switches.half(bench)), activations / 2, runs=1),
        RemedyKind(lambda: bench.first_of(switches.optimizer(bench)), states, runs=1),
        RemedyKind(lambda: bench.first_of(switches.compiled(bench)), activations / 2, runs=4),
    ]
    return [
        RemedyKind(lambda: unused.propose(bench), held.get("unused", 0), runs=1),
        RemedyKind(lambda: settings.propose_allocator(bench), everything, runs=1),  # tried only if a replay suffices
        *own[:1],
        *whole,
        *fewest,
        *in_batches,
        *own[1:],
        RemedyKind(lambda: precision.propose(bench), activations / 2, runs=1),
        RemedyKind(lambda: settings.propose_others(bench), max(2 * survey.logits_bytes, parameters), runs=1),
        RemedyKind(lambda: settings.propose_sharding(bench), of_fsdp, runs=2),
        RemedyKind(lambda: compiled.propose(bench), activations, runs=3),
        RemedyKind(lambda: optimizers.propose(bench), states, runs=1),
        RemedyKind(lambda: loss.propose(bench), loss.FUSED * survey.logits_bytes, runs=1),
        *keeping,
        # Whatever the weights are, a loss is often computed from logits in float32.
        RemedyKind(lambda: precision.propose_weights(bench), (everything - 3 * survey.logits_bytes) / 2, runs=1),
        RemedyKind(lambda: cards.propose(bench), everything - activations, runs=3),
        RemedyKind(lambda: live.propose(bench), activations, runs=6),
    ]
