"""Remedy "cards": more cards, for a script that is a job of several ranks already."""

import shlex

from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedy import Remedy
from coopsim.run.ranks import launcher
from coopsim.run.ranks.fewest import narrow

#: At most so many times the cards that the job has: if more are needed, what every card holds is too large.
_MOST = 16


def propose(bench: Bench) -> None:
    """Propose the smallest number of ranks on which the job fits, of at most _MOST times as many as it has.

    Assumes that all larger numbers suffice, too. Nothing for a script that is no job of several ranks.
    """
    job = bench.survey.report
    if not job.ranks:
        return

    def trains(size: int) -> bool:
        within = job.world_size < size <= job.world_size * _MOST
        return within and bench.fits(proposal(bench, size)) is not None

    narrow(trains, job)


def proposal(bench: Bench, size: int) -> Remedy:
    """Return the remedy, not tried yet, of running the job on `size` cards, one rank on each."""
    per_node = min(bench.survey.report.cards_per_node, size)
    command = launcher.with_ranks(bench.script.command, size // per_node, per_node)
    if command is None:
        words = ("coopsim", "phantom", "run", "--world", str(size), "--", *bench.script.command)
        return bench.proposal("cards", f"{size} cards", (shlex.join(words),), Changes(cards=size), same=False)
    line, changes = shlex.join(command), Changes(cards=size)
    return bench.proposal("cards", f"{size} cards", (line,), changes, same=False, command=command)
