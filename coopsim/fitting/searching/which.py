"""Which card? The verdict on a script for every known card: it fits, it fits with a remedy, it does not."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from coopsim.base.text import human, table
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.fitting.figures import HEADROOM
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching.search import Search, at_once
from coopsim.fitting.verdict import Fit
from coopsim.phantom import Profile
from coopsim.run import Script, memory

FITS, CLOSE, REMEDY, NO, UNKNOWN = "fits", "too close to call", "with a remedy", "does not fit", "not tried"
_HEADER = ("card", "memory", "needs", "step", "verdict")


@dataclass(frozen=True)
class Answer:
    """The verdict for one card. needs_bytes: the smallest memory for the unchanged script, context included.

    step_ns: the predicted time of a step, by the prices of its ops, with float32 products in `precision`. remedy: one
    with which it fits, tried on the card `tried_on`; a card of the same architecture with at least as much memory as it
    took there.
    """

    card: Profile
    verdict: str
    needs_bytes: int
    step_ns: float
    precision: str
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
            "precision": self.precision,
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
        found = {answer.precision for answer in self.answers}
        products = "; ".join(sorted(found, key=lambda text: "tf32" not in text))
        without = ", on cards without TF32" * (len(found) > 1)
        explained = (
            "step: an optimizer step of the unchanged script, by prices of ops, float32 products in "
            f"{products}{without}"
        )
        return "\n".join([table(_HEADER, rows), "", explained, *self.notes])


class EveryCard:
    """The search for the verdict on a script for every known card. `say` is called with a line on each run.

    The script runs once for each architecture (compute capability), as PyTorch takes more memory on some: cuBLAS's
    workspaces from 9.0 on, kernels of attention. `jobs` of these runs are under way at a time. On the cards on which it
    does not fit, remedies are searched for, from the largest card down: one that was verified on a larger card is taken
    where its peak suffices, else a search is made, which ends with the first remedy that works. All ends where
    nothing works, or `seconds` after the last of the first runs; the cards that are left are "not tried".
    """

    def __init__(
        self, script: Script, *, seconds: float, jobs: int = 1, say: Callable[[str], None] = lambda _: None
    ) -> None:
        every = map(profiles.get, profiles.names())
        self._cards = sorted(every, key=lambda card: (-card.memory_bytes, card.name))
        self._script, self._seconds, self._jobs, self._say = script, seconds, jobs, say
        self._searches: list[Search] = []  #: which make the first runs
        self._answers: dict[str, Answer] = {}
        self._known: list[tuple[Answer, Remedy]] = []  #: remedies that were verified, and where
        self._failed: int | None = None  #: the need, less the memory, of the largest card on which nothing works

    def run(self) -> Which:
        """Return all verdicts. Raises CoopsimError if the script fails for another reason than memory."""
        for found in at_once(self._first, self._architectures(), self._jobs, self._stop):
            self._answers |= found
        ends = time.monotonic() + self._seconds
        left = [card for card in self._cards if self._answers[card.name].verdict == UNKNOWN]
        if left:
            self._say(self._so_far_in_words(len(left)))
        for card in left:
            self._answers[card.name] = self._with_remedy(self._answers[card.name], ends)
        return self.so_far()

    def so_far(self, *, interrupted: bool = False) -> Which:
        """Return the verdicts so far, at the end or after an interrupt; a card whose first run is missing is left out.

        Raises CoopsimError if no first run has ended.
        """
        answers = tuple(self._answers[card.name] for card in self._cards if card.name in self._answers)[::-1]
        if not answers:
            raise CoopsimError("interrupted before the first run has ended: nothing is known")
        notes = []
        if interrupted:
            notes.append("interrupted: not everything was tried")
        elif any(a.verdict == UNKNOWN for a in answers):
            notes.append("time ran out (--time) before remedies were tried on the cards marked as not tried")
        off = [a.card.name for a in answers if memory.of_context(a.needs_bytes, a.card.memory_bytes, a.card.context)]
        if off:
            notes.append(f"nearer than what their CUDA context takes is known: {', '.join(off)}")
        if any(a.remedy for a in answers):
            notes.append("remedies: the first kind that works; fit with one card compares all, with lines to paste")
        return Which(answers, tuple(notes))

    def _architectures(self) -> list[list[Profile]]:
        found: dict[str, list[Profile]] = {}
        for card in self._cards:
            found.setdefault(card.compute_capability, []).append(card)
        return list(found.values())

    def _stop(self) -> None:
        for search in list(self._searches):
            search.stop()

    def _first(self, cards: list[Profile]) -> dict[str, Answer]:
        """Run the unchanged script on the first of the cards of an architecture, and return the answers for all."""
        search = self._search(cards[0])
        self._searches.append(search)
        survey = search.look()
        if survey.report.outcome == "oom":
            raise CoopsimError("the script asks for more memory than any card has; fit with one card says where")
        found = {}
        for card in cards:
            needs = survey.needs_bytes + card.context.training_bytes - cards[0].context.training_bytes
            verdict = FITS if needs <= card.memory_bytes else UNKNOWN
            verdict = CLOSE if memory.is_close(needs, card.memory_bytes) else verdict
            found[card.name] = Answer(card, verdict, needs, survey.step_ns_by_card[card.name], survey.precision)
        return found

    def _search(self, card: Profile, seconds: float | None = None) -> Search:
        return Search(
            replace(self._script, card=card.name),
            jobs=self._jobs,
            seconds=seconds,
            say=lambda line: self._say(f"{card.name} {line}"),
            first=True,
        )

    def _so_far_in_words(self, left: int) -> str:
        fits = [answer.card for answer in self._answers.values() if answer.verdict != UNKNOWN]
        smallest = min(fits, key=lambda card: card.memory_bytes, default=None)
        if smallest is None:
            fitting = "no card as it is"
        else:
            fitting = f"{len(fits)} of {len(self._cards)} cards as it is, the smallest is the {smallest.name}"
        return f"fits {fitting}; next, remedies for {left} cards, for at most {self._seconds:.0f} s"

    def _with_remedy(self, answer: Answer, ends: float) -> Answer:
        """Return the answer for a card on which the script does not fit, to be asked from the largest card down."""
        lacks = answer.needs_bytes - answer.card.memory_bytes
        taken = next((one for one in self._known if _serves(*one, answer)), None)
        if taken is None and self._failed is None and (left := ends - time.monotonic()) > 0:
            found = self._searched(answer.card, left)
            if found is not None and found.fits:  # it adapts to what the card has
                return replace(answer, verdict=FITS, needs_bytes=found.needs_bytes)
            verified = [remedy for remedy in found.remedies if remedy.verified] if found else []
            self._known += [(answer, remedy) for remedy in verified]
            taken = (answer, verified[0]) if verified else None
            complete = found is not None and time.monotonic() < ends
            self._failed = lacks if taken is None and complete else None
        if taken is not None:
            return replace(answer, verdict=REMEDY, remedy=taken[1], tried_on=taken[0].card.name)
        return replace(answer, verdict=NO if self._failed is not None and lacks >= self._failed else UNKNOWN)

    def _searched(self, card: Profile, seconds: float) -> Fit | None:
        """Return what is found in so many seconds; None if nothing can be tried."""
        try:
            return self._search(card, seconds).run()
        except CoopsimError as e:
            self._say(f"{card.name} nothing was tried: {e}")
            return None


def _serves(there: Answer, remedy: Remedy, here: Answer) -> bool:
    """Return whether a remedy that was verified on another card fits here: same architecture, and memory for it."""
    if there.card.compute_capability != here.card.compute_capability:
        return False
    peak = remedy.peak_device_bytes + here.card.context.training_bytes - there.card.context.training_bytes
    return peak <= int(here.card.memory_bytes * (1 - HEADROOM))


def _verdict(answer: Answer) -> str:
    if answer.remedy is None:
        return answer.verdict
    where = "" if answer.tried_on == answer.card.name else f", tried on {answer.tried_on}"
    return f"with {answer.remedy.kind}: {answer.remedy.text} ({answer.remedy.time_ratio - 1:+.1%}{where})"
