"""Run the script inside a budget of memory: coopsim live run, as a user would type it."""

import shlex
from collections.abc import Iterator

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy
from coopsim.live import settings
from coopsim.types import MIB

#: Budgets as shares of what the allocator may reserve: what lies between tensors takes the rest.
_SHARES = (0.97, 0.9, 0.8)


def find(case: Case) -> Iterator[Remedy]:
    """The largest budget with which the script trains, if its steps go by plan.

    Not of ranks, nor of what torch.compile compiled: live cannot follow these.
    """
    report = case.survey.report
    if report.ranks or report.compiled_graphs:
        return
    room = case.trials.limit_bytes - report.context_bytes
    for share in _SHARES:
        wanted = proposal(case, int(room * share) // MIB)
        done = case.verify(wanted)
        if done is not None:
            yield done
        if done is not None or wanted.changes in case.trials.failed:
            return


def proposal(case: Case, budget_mib: int) -> Remedy:
    """In so much."""
    words = case.trials.script.command
    command = shlex.join(("python", *words) if words[0].endswith(".py") else words)
    memory = f"{budget_mib}MiB"
    line = f"coopsim live run --memory {memory} -- {command}"
    changes = Changes(live=memory, variables=settings.variables())  # as the command does
    return case.proposal("live", text(memory), (line,), changes, same=True)


def text(memory: str) -> str:
    """What it is."""
    return f"train in a budget of {memory} (host overhead not counted)"
