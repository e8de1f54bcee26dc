"""Which card? The verdict on a script for every known card: it fits, it fits with a remedy, it does not."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from coopsim.fit.remedy import Remedy
from coopsim.fit.search import Search
from coopsim.fit.trials import MARGIN
from coopsim.fit.verdict import Fit
from coopsim.phantom import Profile, profiles
from coopsim.script import Script, margin
from coopsim.text import human, table
from coopsim.types import CoopsimError

FITS, CLOSE, REMEDY, NO, UNKNOWN = "fits", "too close to call", "with a remedy", "does not fit", "not tried"
_HEADER = ("card", "memory", "needs", "step", "verdict")


@dataclass(frozen=True)
class Answer:
    """The verdict for one card. needs_bytes: the smallest memory for the unchanged script, context included.

    step_ns: the predicted time of a step, by the card's roofline. remedy: one with which it fits, tried on the card
    `tried_on`; a card of the same architecture with at least as much memory as it took there.
    """

    card: Profile
    verdict: str
    needs_bytes: int
    step_ns: float
    remedy: Remedy | None = None
    tried_on: str = ""

    def row(self) -> dict[str, Any]:
        """Return the keys of `--json`."""
        return {
            "card": self.card.name,
            "title": self.card.title,
            "memory_bytes": self.card.memory_bytes,
            "needs_bytes": self.needs_bytes,
            "step_ns": round(self.step_ns),
            "verdict": self.verdict,
            "remedy": self.remedy and self.remedy.row(),
            "tried_on": self.tried_on or None,
        }


@dataclass(frozen=True)
class Which:
    """The verdicts, by memory; str() gives what `coopsim fit --gpu any` prints."""

    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()

    @property
    def solved(self) -> bool:
        """Whether the script fits some card, unchanged or with a verified remedy."""
        return any(answer.verdict in (FITS, CLOSE, REMEDY) for answer in self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {"cards": [answer.row() for answer in self.answers], "notes": list(self.notes)}

    def __str__(self) -> str:
        rows = [
            (a.card.name, human(a.card.memory_bytes), human(a.needs_bytes), f"{a.step_ns / 1e6:.4g} ms", _verdict(a))
            for a in self.answers
        ]
        explained = "step: an optimizer step of the unchanged script, by the card's roofline"
        return "\n".join([table(_HEADER, rows), "", explained, *self.notes])


def which(script: Script, *, seconds: float, jobs: int = 1, say: Callable[[str], None] = lambda _: None) -> Which:
    """Find the verdict on a script for every known card.

    The script runs once for each architecture (compute capability), as PyTorch takes more memory on some: cuBLAS's
    workspaces from 9.0 on, kernels of attention. On the cards on which it does not fit, remedies are searched for, from
    the largest card down: one that was verified on a larger card is taken where its peak suffices, else a search is
    made. It ends where nothing works, or `seconds` after the last of these runs; the cards that are left are "not
    tried". Raises CoopsimError if the script fails for another reason than memory.
    """
    cards = sorted((profiles.get(name) for name in profiles.names()), key=lambda card: (-card.memory_bytes, card.name))
    first: dict[str, Answer] = {}
    for group in _architectures(cards):
        search = Search(replace(script, card=group[0].name), jobs=jobs, say=say)
        survey = search.look()
        if survey.report.outcome == "oom":
            raise CoopsimError("the script asks for more memory than any card has; fit with one card says where")
        for card in group:
            needs = survey.needs_bytes + ((card.context_mib - group[0].context_mib) << 20)
            verdict = FITS if needs <= card.memory_bytes else UNKNOWN
            verdict = CLOSE if margin.is_close(needs, card.memory_bytes) else verdict
            first[card.name] = Answer(card, verdict, needs, survey.step_ns_by_card[card.name])
    ends = time.monotonic() + seconds
    answers = tuple(_with_remedies(script, [first[card.name] for card in cards], ends, jobs, say))
    notes = []
    if any(a.verdict == UNKNOWN for a in answers):
        notes.append("time ran out (--time) before remedies were tried on the cards marked as not tried")
    return Which(answers[::-1], tuple(notes))


def _architectures(cards: list[Profile]) -> list[list[Profile]]:
    found: dict[str, list[Profile]] = {}
    for card in cards:
        found.setdefault(card.compute_capability, []).append(card)
    return list(found.values())


def _with_remedies(
    script: Script, answers: list[Answer], ends: float, jobs: int, say: Callable[[str], None]
) -> Iterator[Answer]:
    """Yield the answers, those that are not known with what was found; `answers` are of ever smaller cards."""
    known: list[tuple[Answer, Remedy]] = []
    failed: int | None = None  # the memory, less the need, of the largest card on which nothing works
    for answer in answers:
        if answer.verdict != UNKNOWN:
            yield answer
            continue
        lacks = answer.needs_bytes - answer.card.memory_bytes
        taken = next((one for one in known if _serves(*one, answer)), None)
        if taken is None and failed is None and (left := ends - time.monotonic()) > 0:
            say(f"remedies for the {answer.card.title}")
            found = _searched(replace(script, card=answer.card.name), left, jobs, say)
            verified = [remedy for remedy in found.remedies if remedy.verified] if found else []
            known += [(answer, remedy) for remedy in verified]
            taken = (answer, verified[0]) if verified else None
            complete = found is not None and time.monotonic() < ends
            failed = lacks if taken is None and complete else None
        if taken is not None:
            yield replace(answer, verdict=REMEDY, remedy=taken[1], tried_on=taken[0].card.name)
        else:
            yield replace(answer, verdict=NO if failed is not None and lacks >= failed else UNKNOWN)


def _searched(script: Script, seconds: float, jobs: int, say: Callable[[str], None]) -> Fit | None:
    """Return what is found in so many seconds; None if nothing can be tried."""
    try:
        return Search(script, jobs=jobs, seconds=seconds, say=say).run()
    except CoopsimError as e:
        say(f"nothing was tried: {e}")
        return None


def _serves(there: Answer, remedy: Remedy, here: Answer) -> bool:
    """Return whether a remedy that was verified on another card fits here: same architecture, and memory for it."""
    if there.card.compute_capability != here.card.compute_capability:
        return False
    peak = remedy.peak_device_bytes + ((here.card.context_mib - there.card.context_mib) << 20)
    return peak <= int(here.card.memory_bytes * (1 - MARGIN))


def _verdict(answer: Answer) -> str:
    if answer.remedy is None:
        return answer.verdict
    where = "" if answer.tried_on == answer.card.name else f", tried on {answer.tried_on}"
    return f"with {answer.remedy.kind}: {answer.remedy.text} ({answer.remedy.time_ratio - 1:+.1%}{where})"
