"""More cards, where the script is a job of several ranks already."""

import re
from collections.abc import Iterator
from dataclasses import replace

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy
from coopsim.script import Report
from coopsim.script.ranks.fewest import search
from coopsim.types import CoopsimError

#: Times the cards there are: beyond, something that every card holds is too large.
_MOST = 16
_PER_NODE = re.compile(r"(--nproc[-_]per[-_]node|--num_processes)(=?)\w*")


def find(case: Case) -> Iterator[Remedy]:
    """The fewest ranks that suffice: `search` takes all larger numbers to fit, too."""
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
    """The same job on so many cards."""
    words = " ".join(case.trials.script.command)
    line = _PER_NODE.sub(rf"\g<1>={size}", words)
    return case.proposal("cards", f"{size} cards", (line,), Changes(cards=size), same=False)
