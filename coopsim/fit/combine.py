"""Several remedies at once, where none alone suffices."""

import functools
from collections.abc import Iterator

from coopsim.fit import checkpointing, compiled, microbatches, precision, settings
from coopsim.fit.batch import Batch
from coopsim.fit.case import Case
from coopsim.fit.remedy import Remedy

_ENOUGH = 2  #: combinations that are looked for


def find(case: Case, batch: Batch | None) -> Iterator[Remedy]:
    """Those that suffice, of the most that each kind can do: the ones that keep the numbers are tried first."""
    found = 0
    for base, add_batches in _bases(case, batch):
        if add_batches and batch is not None:
            done = next(microbatches.find(case, batch, base), None)
        else:
            done = case.verify(base)
        if done is not None:
            yield done
            found += 1
            if found == _ENOUGH:
                return


def nearest(case: Case, batch: Batch | None) -> Remedy | None:
    """All there is, together, with what it takes. None if there is nothing to try."""
    parts = [part for part in _parts(case) if part is not None]
    if batch is not None and (least := microbatches.smallest(case, batch)) is not None:
        parts.append(least)
    return case.nearest(functools.reduce(Remedy.with_, parts)) if parts else None


def _bases(case: Case, batch: Batch | None) -> Iterator[tuple[Remedy, bool]]:
    """What to try, and whether with batches found beside it."""
    recompute, setting, low = _parts(case)
    if recompute and setting:
        yield recompute.with_(setting), False
    if recompute and low:
        yield recompute.with_(low), False
        if setting:
            yield recompute.with_(setting).with_(low), False
    elif low and setting:
        yield low.with_(setting), False
    if batch is not None and batch.parts():
        for base in (recompute, low, setting):
            if base:
                yield base, True
        if recompute and setting and low:
            yield recompute.with_(setting).with_(low), True


def _parts(case: Case) -> tuple[Remedy | None, Remedy | None, Remedy | None]:
    return compiled.least(case) or checkpointing.most(case), settings.together(case), precision.proposal(case)
