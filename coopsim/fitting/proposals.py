"""How a remedy and the search speak: the remedy proposes, the search runs, and tells it how that ended.

A remedy's `propose(case)` is a generator of requests. What it is sent back depends on the request, as the functions
here say by their types: `outcome = yield from trial(remedy)`.

The case that remedies are proposed for: a script that does not fit its card, and what is known of it.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.survey import Survey
from coopsim.run import Report, Script


@dataclass(frozen=True)
class Case:
    """A script that does not fit, and the survey of a run of it.

    limit_bytes: the bytes of the card that a remedy may use. replays: whether its requests to the allocator were
    recorded. found: every remedy that works, as soon as it is known, by its key; failed: the changes with which the
    script fails for another reason than memory, and the reason. The search adds to both.
    """

    script: Script
    survey: Survey
    limit_bytes: int
    replays: bool = True
    found: Mapping[str, Remedy] = field(default_factory=dict)
    failed: Mapping[Changes, str] = field(default_factory=dict)

    def proposal(
        self,
        kind: str,
        text: str,
        lines: tuple[str, ...],
        changes: Changes,
        *,
        same: bool,
        command: tuple[str, ...] = (),
        after_model: bool = False,
        edits: tuple[Edit, ...] = (),
    ) -> Remedy:
        """Return a remedy that has not been tried, so without figures; the arguments are fields of Remedy.

        same: whether all results remain the same, bit for bit. command: () for the script's own. after_model: whether
        `lines` belong where the model was made, so that they can become a patch.
        """
        command = command or self.script.command
        pasted = lines if after_model else ()
        return Remedy(kind, text, lines, 0, 0.0, same, False, changes, command, pasted, edits)

    def failure(self, remedy: Remedy) -> str:
        """Return why the script failed when it was run with a remedy; "" if it did not, or only ran out of memory."""
        return self.failed.get(remedy.changes.stand_in, "")

    @property
    def over_bytes(self) -> int:
        """The bytes by which the script's need exceeds what a remedy may use (limit_bytes)."""
        return self.survey.needs_bytes - self.limit_bytes


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
class TryOutcome:
    """The outcome of a trial. `done`: the remedy with its figures if it fits, else None.

    `failure`: why the script failed for another reason than memory; "" if it did not. `report`: that of the last run;
    None if there was none, or if it failed.
    """

    done: Remedy | None
    failure: str = ""
    report: Report | None = None


def trial(remedy: Remedy, *, counts: bool = True) -> Generator[Request, Any, TryOutcome]:
    """Have a remedy tried, and return the outcome."""
    outcome: TryOutcome = yield Try(remedy, counts)
    return outcome


def fits(remedy: Remedy) -> Generator[Request, Any, Remedy | None]:
    """Have a remedy tried, and return it with its figures if the script fits with it, else None."""
    return (yield from trial(remedy)).done


def first(remedy: Remedy | None) -> Proposals:
    """Have one remedy tried, if there is one, and keep it if it fits."""
    return first_of(() if remedy is None else (remedy,))


def first_of(remedies: Iterable[Remedy]) -> Proposals:
    """Have remedies tried until one fits, and keep that."""
    for remedy in remedies:
        if (done := (yield from fits(remedy))) is not None:
            yield Keep(done)
            return
