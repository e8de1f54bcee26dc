"""Remedy "cards": more cards, for a script that is a job of several ranks already."""

import re

from coopsim.fit.changes import Changes
from coopsim.fit.proposals import Case, Keep, Proposals, fits
from coopsim.fit.remedy import Remedy
from coopsim.script.ranks.fewest import asked

#: At most so many times the cards that the job has: if more are needed, what every card holds is too large.
_MOST = 16
_PER_NODE = re.compile(r"(--nproc[-_]per[-_]node|--num_processes)(=?)\w*")


def propose(case: Case) -> Proposals:
    """Propose the smallest number of ranks on which the job fits, of at most _MOST times as many as it has.

    Assumes that all larger numbers suffice, too. Nothing for a script that is no job of several ranks.
    """
    job = case.survey.report
    if not job.ranks:
        return
    worked: dict[int, Remedy] = {}
    sizes = asked(job)
    size = next(sizes)
    while True:
        if job.world_size < size <= job.world_size * _MOST and (done := (yield from fits(proposal(case, size)))):
            worked[size] = done
        try:
            size = sizes.send(size in worked)
        except StopIteration:
            break
    if worked:
        yield Keep(worked[min(worked)])


def proposal(case: Case, size: int) -> Remedy:
    """Return the remedy, not tried yet, of running the job on `size` cards, one rank on each."""
    words = " ".join(case.script.command)
    line = _PER_NODE.sub(rf"\g<1>={size}", words)
    return case.proposal("cards", f"{size} cards", (line,), Changes(cards=size), same=False)
