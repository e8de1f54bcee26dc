"""Remedies "live" and "live with offload": run the script inside a memory budget, by `coopsim live run`."""

import os
import shlex

from coopsim.base import alloc_conf
from coopsim.base.text import human
from coopsim.base.types import MIB
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedy import Remedy

#: Budgets as fractions of what the allocator may reserve; fragmentation takes the rest.
_SHARES = (0.97, 0.9, 0.8)

_LEAST_STEPS = 3
_DEAR = 1.01  #: time of a step, in steps as they are, from which on offload is tried, too


def propose(bench: Bench) -> None:
    """Propose the largest of three budgets in which the script trains, if most steps follow a plan.

    Nothing is tried for jobs of several ranks and compiled scripts, which live cannot follow, nor for fewer than three
    steps, as the first two have no plan. The search ends where a smaller budget would not help: the script fails, or no
    step goes by plan.
    """
    report = bench.survey.report
    if report.ranks or report.compiled_graphs:
        return
    if report.steps < _LEAST_STEPS:
        bench.note(f"live was not tried: it plans from the third optimizer step on, of {report.steps}")
        return
    room = bench.limit_bytes - report.context_bytes
    for share in _SHARES:
        outcome = bench.tried(proposal(bench, int(room * share) // MIB))
        if outcome.done is not None:
            _offloading(bench, int(room * share) // MIB, outcome.done)
        if outcome.done is not None or outcome.report is None or not outcome.report.plugin.get("planned_steps"):
            return


def _offloading(bench: Bench, budget_mib: int, alone: Remedy) -> None:
    """Propose the same budget with offload, if that costs less time."""
    if alone.time_ratio <= _DEAR or (done := bench.fits(proposal(bench, budget_mib, offload=True))) is None:
        return
    if not done.host_bytes or done.time_ratio >= alone.time_ratio:
        bench.withdraw(done)
        return
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if done.host_bytes > has:
        takes = f"{done.kind} takes {human(done.host_bytes)} of the host's memory"
        bench.note(f"{takes}; this machine has {human(has)}")


def proposal(bench: Bench, budget_mib: int, *, offload: bool = False) -> Remedy:
    """Return the remedy, not tried yet, of running the script in a budget of `budget_mib` MiB.

    offload: plans may copy values to the host.
    """
    words = bench.script.command
    command = shlex.join(("python", *words) if words[0].endswith(".py") else words)
    memory = f"{budget_mib}MiB"
    line = f"coopsim live run{' --offload' * offload} --memory {memory} -- {command}"
    changes = Changes(live=memory, offload=offload, variables=alloc_conf.of_live())  # as the command does
    kind = "live with offload" if offload else "live"
    return bench.proposal(kind, text(memory, offload=offload), (line,), changes, same=True)


def text(memory: str, *, offload: bool = False) -> str:
    """Return the remedy's text, one line, in which `memory` is the budget as the user types it, "8GiB"."""
    more = ", with values in the host's memory" if offload else ""
    return f"train in a budget of {memory}{more} (host time by a model)"
