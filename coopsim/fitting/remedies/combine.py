"""Combine remedies, where no single one suffices for the script to fit the card, or few kinds do."""

import functools
import itertools

from coopsim.fitting.batch import Batch
from coopsim.fitting.editing.patch import certain
from coopsim.fitting.proposals import Case, Keep, Proposals, RunsOut, Withdraw, fits
from coopsim.fitting.remedies import checkpointing, compiled, microbatches, optimizers, precision, settings
from coopsim.fitting.remedy import Remedy

_ENOUGH = 2  #: combinations after which the search ends


def propose(case: Case, batch: Batch | None) -> Proposals:
    """Propose at most two combinations that suffice, of kinds that do not suffice alone, each kind at its strongest.

    Fewer kinds come first and, among as many, recomputation and settings; smaller batches only if nothing else
    suffices. Precision that does not suffice alone is also tried with recomputation that does, to make that faster.
    `batch`: the wanted batch; None: batches cannot be changed.
    """
    alone = {remedy.kind for remedy in case.found.values()}
    parts = [part for part in _parts(case) if part is not None and part.kind not in alone]
    if not alone and (everything := strongest(case, batch)) is not None and (yield RunsOut(everything)):
        return
    found: list[set[str]] = []
    for n in range(2, len(parts) + 1):
        for some in itertools.combinations(parts, n):
            kinds = {part.kind for part in some}
            if any(kinds > fewer for fewer in found):
                continue
            done = yield from fits(functools.reduce(Remedy.with_, some))
            if done is None:
                continue
            yield Keep(done)
            found.append(kinds)
            if len(found) == _ENOUGH:
                return
    if not found:
        yield from _faster(case, alone)
    if not alone and not found and batch is not None and batch.parts():
        yield from _smaller(case, batch, parts)


def _faster(case: Case, alone: set[str]) -> Proposals:
    """Propose recomputation of all blocks in another precision, where that is faster than recomputation alone."""
    most, _, half, _ = _parts(case)
    if most is None or half is None or most.kind not in alone or half.kind in alone:
        return
    done = yield from fits(most.with_(half))
    if done is not None and done.time_ratio >= case.found[most.kind].time_ratio:
        yield Withdraw(done)
    elif done is not None:
        yield Keep(done)


def _smaller(case: Case, batch: Batch, parts: list[Remedy]) -> Proposals:
    """Propose smaller batches combined with each kind, and with all of them, until two combinations suffice."""
    everything = [functools.reduce(Remedy.with_, parts)] if len(parts) > 1 else []
    count = 0
    for base in [*parts, *everything]:
        if (done := (yield from microbatches.largest(case, batch, base))) is not None:
            yield Keep(done)
            count += 1
        if count == _ENOUGH:
            return


def strongest(case: Case, batch: Batch | None) -> Remedy | None:
    """Return all kinds combined, not tried yet; None if no kind applies. `batch` as in `propose`."""
    parts = [part for part in _parts(case) if part is not None]
    if batch is not None and (least := microbatches.smallest(case, batch)) is not None:
        parts.append(least)
    whole = functools.reduce(Remedy.with_, parts) if parts else None
    if whole is None or not whole.changes.printed or certain(whole, case.survey) is not None:
        return whole
    return functools.reduce(Remedy.with_, [part for part in parts if not part.changes.printed])


def _parts(case: Case) -> tuple[Remedy | None, ...]:
    """Return each kind at its strongest, those that keep the same numbers first; None for one that does not apply."""
    less = optimizers.least(case)
    others = settings.together(case, optimizer=less is None)
    return compiled.least(case) or checkpointing.most(case), others, precision.proposal(case), less
