"""The verdict on a long run: what it takes, whether and at which step memory runs out, why, and what helps."""

from collections.abc import Callable
from dataclasses import dataclass

from coopsim.run.longrun.causes import Cause, PeakParts, parts
from coopsim.run.longrun.play import PEAK_ALLOCATED, PEAK_RESERVED, RESERVED
from coopsim.run.longrun.recorded import Ints
from coopsim.run.longrun.remedies import TriedRemedy, tried
from coopsim.run.longrun.replay import BytesOfSteps, OutAt, Replay
from coopsim.run.longrun.run import Card, LongRun

_OTHERS: dict[Cause, tuple[str, ...]] = {
    "leak": ("anything: the line under `kept by` is what to change",),
    "longer input": ("micro-batches", "checkpointing (coopsim fit tries both)"),
    "fragmentation": ("sorting the inputs by length (bucketing)",),
}
_SELDOM = 0.01  #: per step, how often the allocator may give back its cache before remedies are tried


@dataclass(frozen=True)
class LongVerdict:
    """The verdict. `bytes` is int64, a row per step, columns as in play.py: on the card, or if that runs out of memory
    on one that does not. `parts` are of the step with the most reserved bytes, or of the one that runs out.

    `retries`: how often the allocator gave back its cache to go on, on the card. `not_tried`: what else may help.
    """

    run: LongRun
    card: Card
    bytes: Ints
    out: OutAt | None
    parts: PeakParts
    retries: int
    tried: tuple[TriedRemedy, ...]
    not_tried: tuple[str, ...] = ()

    @property
    def replay(self) -> Replay:
        """Return it as figures of a report."""
        run, book = self.run, self.run.book
        played = [length for length in run.lengths if length]
        return Replay(
            steps=len(run),
            as_recorded=run.as_recorded,
            lengths_from=str(run.source) if run.source else "drawn",
            shortest=list(min(played)) if played else [],
            longest=list(max(played)) if played else [],
            stood_in=run.stood_in,
            estimated=run.estimated,
            left_out=book.left_out,
            unlike=book.unlike,
            irregular=list(book.irregular),
            empties_every=book.empties.period if book.empties else None,
            evaluates_every=book.evaluates.period if book.evaluates else None,
            alloc_conf=run.recorded.conf,
            card_bytes=self.card.bytes,
            allocated=BytesOfSteps.of(self.bytes[:, PEAK_ALLOCATED]),
            reserved=BytesOfSteps.of(self.bytes[:, PEAK_RESERVED]),
            reserved_after_steps=BytesOfSteps.of(self.bytes[:, RESERVED]),
            retries=self.retries,
            runs_out=self.out,
            cause=self.parts.cause,
            parts=self.parts,
            tried=list(self.tried),
            not_tried=list(self.not_tried),
        )


def judge(run: LongRun, card: Card, say: Callable[[str], None], *, helps: bool = True) -> LongVerdict:
    """Play the run on the card; if memory runs out, or nearly does all the time, say why, and try what helps.

    `say` is called with what is done. helps: try what helps.
    """
    say(f"replaying {len(run)} steps")
    on_card = run.play(card)
    at = len(on_card.bytes)
    if not on_card.failed and on_card.retries <= _SELDOM * len(run):
        return LongVerdict(run, card, on_card.bytes, None, parts(run), on_card.retries, ())
    out = None
    if on_card.failed:
        say(f"out of memory at step {at}; looking for the cause, and for what helps")
        out = OutAt(at, run.lengths[at - 1], on_card.requested, _cause(run, card, at))
    found: list[TriedRemedy] = []
    for one in tried(run, card, out.cause if out else "fragmentation") if helps else ():
        say(f"{one.what}: {'fits' if one.fits else f'out of memory at step {one.failed_at}'}")
        found.append(one)
    bytes_ = run.endless.bytes if out else on_card.bytes
    others = _OTHERS[out.cause] if out else ()
    return LongVerdict(run, card, bytes_, out, parts(run), on_card.retries, tuple(found), others)


def _cause(run: LongRun, card: Card, step: int) -> Cause:
    """Why memory ran out at a step.

    Its input is too long if one such step runs out from an empty cache. Else it is what is kept, or fragmentation.
    """
    if run.alone(run.lengths[step - 1], card, times=0).failed:
        return "longer input"
    here = parts(run, step)
    return "leak" if here.kept_bytes >= here.fragmentation_bytes and here.kept_bytes else "fragmentation"
