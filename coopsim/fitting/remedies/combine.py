"""Combine remedies, where no single one suffices for the script to fit the card, or few kinds do."""

import functools
import itertools

from coopsim.fitting.batch import Batch
from coopsim.fitting.bench import Bench
from coopsim.fitting.editing.patch import certain
from coopsim.fitting.remedies import checkpointing, compiled, microbatches, optimizers, precision, settings, switches
from coopsim.fitting.remedy import Remedy

_ENOUGH = 2  #: combinations after which the search ends


def propose(bench: Bench, batch: Batch | None) -> None:
    """Propose at most two combinations that suffice, of kinds that do not suffice alone, each kind at its strongest.

    Fewer kinds come first and, among as many, recomputation and settings; smaller batches only if nothing else
    suffices. Precision that does not suffice alone is also tried with recomputation that does, to make that faster.
    `batch`: the wanted batch; None: batches cannot be changed.
    """
    alone = {remedy.kind for remedy in bench.found.values()}
    parts = [part for part in _parts(bench) if part is not None and part.kind not in alone]
    if not alone and (everything := _strongest(bench, batch)) is not None and bench.runs_out(everything):
        return
    found: list[set[str]] = []
    for n in range(2, len(parts) + 1):
        for some in itertools.combinations(parts, n):
            kinds = {part.kind for part in some}
            if any(kinds > fewer for fewer in found):
                continue
            done = bench.fits(functools.reduce(Remedy.with_, some))
            if done is None:
                continue
            found.append(kinds)
            if len(found) == _ENOUGH:
                return
    if not found:
        _faster(bench, alone)
    if not alone and not found and batch is not None and batch.parts():
        _smaller(bench, batch, parts)


def _faster(bench: Bench, alone: set[str]) -> None:
    """Propose recomputation of all blocks in another precision, where that is faster than recomputation alone."""
    most, _, half, _ = _parts(bench)
    if most is None or half is None or most.kind not in alone or half.kind in alone:
        return
    done = bench.fits(most.with_(half))
    alone_ratio = min(remedy.time_ratio for remedy in bench.found.values() if remedy.kind == most.kind)
    if done is not None and done.time_ratio >= alone_ratio:
        bench.withdraw(done)


def _smaller(bench: Bench, batch: Batch, parts: list[Remedy]) -> None:
    """Propose smaller batches combined with each kind, and with all of them, until two combinations suffice."""
    everything = [functools.reduce(Remedy.with_, parts)] if len(parts) > 1 else []
    count = 0
    for base in [*parts, *everything]:
        count += microbatches.largest(bench, batch, base) is not None
        if count == _ENOUGH:
            return


def _strongest(bench: Bench, batch: Batch | None) -> Remedy | None:
    """Return all kinds combined, not tried yet; None if no kind applies. `batch` as in `propose`."""
    parts = [part for part in _parts(bench) if part is not None]
    if batch is not None and (least := microbatches.smallest(bench, batch)) is not None:
        parts.append(least)
    whole = functools.reduce(Remedy.with_, parts) if parts else None
    if whole is None or not whole.changes.printed or certain(whole, bench.survey) is not None:
        return whole
    return functools.reduce(Remedy.with_, [part for part in parts if not part.changes.printed])


def _parts(bench: Bench) -> tuple[Remedy | None, ...]:
    """Return each kind at its strongest, those that keep the same numbers first; None for one that does not apply."""
    less = switches.strongest(bench, switches.optimizer(bench)) or optimizers.least(bench)
    others = settings.together(bench, optimizer=less is None)
    recompute = switches.strongest(bench, switches.recompute(bench))
    recompute = recompute or compiled.least(bench) or checkpointing.most(bench)
    half = switches.strongest(bench, switches.half(bench)) or precision.proposal(bench)
    return recompute, others, half, less
