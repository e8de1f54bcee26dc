"""Remedies "settings": settings of FSDP that save memory and compute the same."""

import itertools
from collections.abc import Iterator

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.editing.fsdp import lines
from coopsim.fit.proposals import Proposals, first
from coopsim.fit.remedy import Remedy


def propose(case: Case) -> Proposals:
    """Propose each setting of FSDP on its own."""
    for one in proposals(case):
        yield from first(one)


def proposals(case: Case) -> Iterator[Remedy]:
    """Yield a remedy, not tried yet, for each setting that the script's calls do not make already.

    The settings are: reshard after the forward pass, limit all-gathers, prefetch nothing. Nothing if a library makes a
    call, as the arguments come from its own settings.
    """
    calls = case.survey.sharding
    if not all(call.file for call in calls):
        return
    if any(call.keeps for call in calls):
        yield _proposal(case, "FSDP reshards layers after their forward pass", Changes(reshard=True))
    if any(call.unlimited for call in calls):
        yield _proposal(case, "FSDP limits all-gathers", Changes(limit_gathers=True))
    if any(call.ahead for call in calls):
        yield _proposal(case, "FSDP prefetches nothing", Changes(no_prefetch=True))


def _proposal(case: Case, text: str, changes: Changes) -> Remedy:
    calls = dict.fromkeys(lines(call, changes) for call in case.survey.sharding)
    return case.proposal("settings", text, tuple(itertools.chain(*calls)), changes, same=True)
