"""Remedy "cards": more cards, for a script that is a job of several ranks already."""

import shlex

from coopsim.fitting.changes import Changes
from coopsim.fitting.proposals import Case, Keep, Proposals, fits
from coopsim.fitting.remedy import Remedy
from coopsim.run.ranks import launcher
from coopsim.run.ranks.fewest import asked

#: At most so many times the cards that the job has: if more are needed, what every card holds is too large.
_MOST = 16


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
    per_node = min(case.survey.report.cards_per_node, size)
    command = launcher.with_ranks(case.script.command, size // per_node, per_node)
    if command is None:
        words = ("coopsim", "phantom", "run", "--world", str(size), "--", *case.script.command)
        return case.proposal("cards", f"{size} cards", (shlex.join(words),), Changes(cards=size), same=False)
    line, changes = shlex.join(command), Changes(cards=size)
    return case.proposal("cards", f"{size} cards", (line,), changes, same=False, command=command)
