"""Combine remedies, where no single one suffices for the script to fit the card, or few kinds do."""

import functools
import itertools
from collections.abc import Iterator

from coopsim.fit import checkpointing, compiled, microbatches, optimizers, precision, settings
from coopsim.fit.batch import Batch
from coopsim.fit.case import Case
from coopsim.fit.remedy import Remedy

_ENOUGH = 2  #: combinations after which the search ends


def find(case: Case, batch: Batch | None) -> Iterator[Remedy]:
    """Yield at most two combinations that suffice, of kinds that do not suffice alone, each kind at its strongest.

    Fewer kinds come first and, among as many, recomputation and settings; smaller batches only if nothing else
    suffices. Precision that does not suffice alone is also tried with recomputation that does, to make that faster.
    `batch`: the wanted batch; None: batches cannot be changed.
    """
    alone = {remedy.kind for remedy in case.trials.found.values()}
    parts = [part for part in _parts(case) if part is not None and part.kind not in alone]
    if not alone and (everything := _everything(case, batch)) is not None and case.runs_out(everything):
        return
    found: list[set[str]] = []
    for n in range(2, len(parts) + 1):
        for some in itertools.combinations(parts, n):
            kinds = {part.kind for part in some}
            if any(kinds > fewer for fewer in found):
                continue
            done = case.verify(functools.reduce(Remedy.with_, some))
            if done is None:
                continue
            yield done
            found.append(kinds)
            if len(found) == _ENOUGH:
                return
    if not found and (done := _faster(case, alone)) is not None:
        yield done
    if not alone and not found and batch is not None and batch.parts():
        yield from itertools.islice(_smaller(case, batch, parts), _ENOUGH)


def _faster(case: Case, alone: set[str]) -> Remedy | None:
    """Return recomputation of all blocks in another precision, if that fits and is faster than recomputation alone."""
    most, _, half, _ = _parts(case)
    if most is None or half is None or most.kind not in alone or half.kind in alone:
        return None
    done = case.verify(most.with_(half))
    if done is not None and done.time_ratio >= case.trials.found[most.kind].time_ratio:
        del case.trials.found[done.key]
        return None
    return done


def _smaller(case: Case, batch: Batch, parts: list[Remedy]) -> Iterator[Remedy]:
    """Yield smaller batches combined with each kind, and with all of them."""
    everything = [functools.reduce(Remedy.with_, parts)] if len(parts) > 1 else []
    for base in [*parts, *everything]:
        yield from microbatches.find(case, batch, base)


def nearest(case: Case, batch: Batch | None) -> Remedy | None:
    """Return all kinds combined, with the peak and time of a run with enough memory; None if no kind applies.

    `batch` as in `find`.
    """
    everything = _everything(case, batch)
    return None if everything is None else case.nearest(everything)


def _everything(case: Case, batch: Batch | None) -> Remedy | None:
    parts = [part for part in _parts(case) if part is not None]
    if batch is not None and (least := microbatches.smallest(case, batch)) is not None:
        parts.append(least)
    whole = functools.reduce(Remedy.with_, parts) if parts else None
    if whole is None or case.can_run(whole):
        return whole
    return functools.reduce(Remedy.with_, [part for part in parts if not part.changes.printed])


def _parts(case: Case) -> tuple[Remedy | None, ...]:
    """Return each kind at its strongest, those that keep the same numbers first; None for one that does not apply."""
    less = optimizers.least(case)
    others = settings.together(case, optimizer=less is None)
    return compiled.least(case) or checkpointing.most(case), others, precision.proposal(case), less
