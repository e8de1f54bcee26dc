"""How a remedy and the search speak: the remedy proposes, the search runs, and tells it how that ended.

A remedy's `propose(case)` is a generator of requests. What it is sent back depends on the request, as the functions
here say by their types: `outcome = yield from trial(remedy)`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy
from coopsim.script import Report


@dataclass(frozen=True)
class Try:
    """Run the script with a remedy, and see whether it fits. If it counts, it is one that works."""

    remedy: Remedy
    counts: bool = True


@dataclass(frozen=True)
class RunsOut:
    """Run the script with a remedy, only to see whether memory runs out."""

    remedy: Remedy


@dataclass(frozen=True)
class Run:
    """Run the script with changes; `what` says to the user what for."""

    what: str
    changes: Changes


@dataclass(frozen=True)
class Replay:
    """Replay the recorded requests with the allocator alone, with changes to the environment."""

    changes: Changes


@dataclass(frozen=True)
class Keep:
    """A remedy that was tried and works is to be kept."""

    remedy: Remedy


@dataclass(frozen=True)
class Withdraw:
    """A remedy that was tried and works is not to be kept: another is better."""

    remedy: Remedy


@dataclass(frozen=True)
class Note:
    """A line to print with the verdict."""

    text: str


Request: TypeAlias = Try | RunsOut | Run | Replay | Keep | Withdraw | Note
#: What a remedy proposes, request by request.
Proposals: TypeAlias = Generator[Request, Any, None]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial. `done`: the remedy with its figures if it fits, else None.

    `failure`: why the script failed for another reason than memory; "" if it did not. `report`: that of the last run;
    None if there was none, or if it failed.
    """

    done: Remedy | None
    failure: str = ""
    report: Report | None = None


def trial(remedy: Remedy, *, counts: bool = True) -> Generator[Request, Any, Outcome]:
    """Have a remedy tried, and return the outcome."""
    outcome: Outcome = yield Try(remedy, counts)
    return outcome


def fits(remedy: Remedy) -> Generator[Request, Any, Remedy | None]:
    """Have a remedy tried, and return it with its figures if the script fits with it, else None."""
    return (yield from trial(remedy)).done


def first(remedy: Remedy | None) -> Proposals:
    """Have one remedy tried, if there is one, and keep it if it fits."""
    if remedy is not None and (done := (yield from fits(remedy))) is not None:
        yield Keep(done)
