"""Remedy "cards": more cards, for a script that is a job of several ranks already."""

import re
from collections.abc import Iterator
from dataclasses import replace

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy
from coopsim.script import Report
from coopsim.script.ranks.fewest import search
from coopsim.types import CoopsimError

#: At most so many times the cards that the job has: if more are needed, what every card holds is too large.
_MOST = 16
_PER_NODE = re.compile(r"(--nproc[-_]per[-_]node|--num_processes)(=?)\w*")


def find(case: Case) -> Iterator[Remedy]:
    """Yield the remedy with the smallest number of ranks on which the job fits, if any, found by runs of the script.

    Assumes that all larger numbers suffice, too. Yields nothing for a script that is no job of several ranks.
    """
    first = case.survey.report
    if not first.ranks:
        return
    worked: dict[int, Remedy] = {}

    def trains(size: int) -> Report:
        if size > first.world_size * _MOST:
            raise CoopsimError(f"{size} ranks were not tried")
        done = case.verify(proposal(case, size))
        if done is not None:
            worked[size] = done
        return replace(first, world_size=size, outcome="oom" if done is None else "ok")

    found = search(trains, replace(first, outcome="oom"))
    if found.value in worked:
        yield worked[found.value]


def proposal(case: Case, size: int) -> Remedy:
    """Return the remedy, not tried yet, of running the job on `size` cards, one rank on each."""
    words = " ".join(case.trials.script.command)
    line = _PER_NODE.sub(rf"\g<1>={size}", words)
    return case.proposal("cards", f"{size} cards", (line,), Changes(cards=size), same=False)
