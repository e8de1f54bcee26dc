"""The order in which kinds of remedy are tried: by what each promises to gain, for the time that it takes to try."""

from dataclasses import dataclass

from coopsim.fitting.batch import Batch
from coopsim.fitting.proposals import Case, Proposals
from coopsim.fitting.remedies import (
    cards,
    checkpointing,
    compiled,
    live,
    lora,
    loss,
    microbatches,
    offload,
    optimizers,
    precision,
    selective,
    settings,
    unused,
)


@dataclass(frozen=True)
class RemedyKind:
    """A kind of remedy. saves_bytes: the most that it may save of the script's need; runs: how many trying it takes.

    A run is the time of one of the unchanged script. `proposals` do nothing before they are driven.
    """

    proposals: Proposals
    saves_bytes: float
    runs: float


def by_gain(kinds: list[RemedyKind], over_bytes: int) -> list[RemedyKind]:
    """Return the kinds by the share of `over_bytes` that they may save, per run; equal ones in the given order.

    Saving more than that gains nothing more. Those that may save all of it come before those that cannot.

    >>> kinds = [RemedyKind(iter(name), saves, runs) for name, saves, runs in (("a", 9, 3), ("b", 5, 1), ("c", 20, 2))]
    >>> [next(kind.proposals) for kind in by_gain(kinds, 9)]
    ['c', 'a', 'b']
    """

    def gain(kind: RemedyKind) -> tuple[bool, float]:
        share = kind.saves_bytes / max(over_bytes, 1)
        return share >= 1, min(share, 1) / kind.runs

    return sorted(kinds, key=gain, reverse=True)


def kinds(case: Case, batch: Batch | None, *, together: bool) -> list[RemedyKind]:
    """Return all kinds, in the order of a search for the first that works (docs/fit.md, "Which card?").

    What each may save is read from what the unchanged script held at its peak. together: kinds are tried at the same
    time, so that those which look at what another has found are chained to it.
    """
    survey = case.survey
    held = survey.report.peak_by_kind
    activations, parameters = survey.activation_bytes, held.get("parameters", 0)
    everything = survey.needs_bytes - survey.report.context_bytes
    levels = checkpointing.levels(case)
    kept = max((sum(block.kept_bytes for block in level) for level in levels), default=0)
    whole, fewest, keeping = checkpointing.propose_whole(case), checkpointing.propose(case), selective.propose(case)
    # After all blocks by an argument, fewer blocks are another row of the same kind.
    by_argument = bool(levels) and checkpointing.by_arguments(case, levels[0]) is not None
    if together:
        whole, fewest, keeping = chained(whole, fewest, keeping), chained(), chained()
    of_fsdp = held.get("gathered_layers", 0) + held.get("buckets", 0)
    return [
        RemedyKind(unused.propose(case), held.get("unused", 0), runs=1),
        RemedyKind(
            settings.propose_allocator(case), everything, runs=1
        ),  # proposed only where a replay says it suffices
        RemedyKind(whole, kept, runs=1),
        RemedyKind(fewest, kept, runs=7 if by_argument else 3),
        *([] if batch is None else [RemedyKind(microbatches.propose(case, batch), activations, runs=2)]),
        RemedyKind(precision.propose(case), activations / 2, runs=1),
        RemedyKind(settings.propose_others(case), max(2 * survey.logits_bytes, parameters), runs=1),
        RemedyKind(settings.propose_sharding(case), of_fsdp, runs=2),
        RemedyKind(compiled.propose(case), activations, runs=3),
        RemedyKind(optimizers.propose(case), held.get("optimizer_state", 0), runs=1),
        RemedyKind(loss.propose(case), loss.FUSED * survey.logits_bytes, runs=1),
        RemedyKind(keeping, kept, runs=7),
        # Whatever the weights are, a loss is often computed from logits in float32.
        RemedyKind(precision.propose_weights(case), (everything - 3 * survey.logits_bytes) / 2, runs=1),
        RemedyKind(cards.propose(case), everything - activations, runs=3),
        RemedyKind(
            chained(live.propose(case), offload.propose(case)), activations, runs=6
        ),  # the second if the first fails
        RemedyKind(lora.propose(case), 0, runs=1),  # no remedy
    ]


def chained(*each: Proposals) -> Proposals:
    """What several remedies propose, one after the other."""
    for one in each:
        yield from one
