"""The verdict on a script and a card, with the remedies."""

from dataclasses import asdict, dataclass
from typing import Any

from coopsim.base.text import human, listed
from coopsim.cards import profiles
from coopsim.fitting import rows
from coopsim.fitting.figures import HEADROOM
from coopsim.fitting.remedy import Remedy
from coopsim.run import OutOfMemory, memory
from coopsim.run.largest import Largest
from coopsim.run.records_memory import HostMemory


@dataclass(frozen=True)
class Fit:
    """The verdict and the remedies; str() gives what `coopsim fit` prints.

    fits: whether the unchanged script fits. needs_bytes: the smallest memory for it; memory_bytes: the card's.
    remedies: those that were verified, in their order (Remedy.order).
    larger: the search for the largest batch that trains, if the command has a placeholder for it and the script
    fits, or no card has enough memory for it; else None. basis, precision: what times are predicted from, and in
    what float32 products are then computed. runs: how often the script was run. notes: lines to print, as on kinds
    of remedy that could not be tried. failed: where memory ran out with unlimited memory, in which case needs_bytes
    is a lower bound; else None. full_after_steps: if the script fits and its memory grows from step to step, the
    step by which the card is full; else None. host: what the unchanged script takes of the host's memory
    (Report.host). at_least: needs_bytes is a lower bound.
    """

    fits: bool
    needs_bytes: int
    memory_bytes: int
    remedies: tuple[Remedy, ...]
    basis: str
    precision: str
    runs: int
    card: str
    larger: Largest | None = None
    notes: tuple[str, ...] = ()
    failed: OutOfMemory | None = None
    masks: str = "all"
    lower_needs_bytes: int | None = None
    full_after_steps: int | None = None
    host: HostMemory | None = None
    at_least: bool = False

    @property
    def too_close(self) -> bool:
        """Whether the need is within 6 % of the card's memory, so that a real card may decide otherwise."""
        return memory.is_close(self.needs_bytes, self.memory_bytes)

    @property
    def solved(self) -> bool:
        """Whether the script fits, unchanged or with a verified remedy."""
        return self.fits or bool(self.remedies)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as `--json` prints it."""
        return {
            "fits": self.fits,
            "needs_bytes": self.needs_bytes,
            "memory_bytes": self.memory_bytes,
            "masks": self.masks,
            "lower_needs_bytes": self.lower_needs_bytes,
            "full_after_steps": self.full_after_steps,
            "precision": self.precision,
            "host": asdict(self.host) if self.host else {},
            "remedies": [remedy.row() for remedy in self.remedies],
        }

    def __str__(self) -> str:
        said = self._verdict() if self.fits else [*self._verdict(), *self._remedies()]
        return "\n".join([*said, *self._host()])

    def _host(self) -> list[str]:
        return ["", listed(self.host.rows())] if self.host else []

    @property
    def _prices(self) -> str:
        return self.basis.partition(":")[0]

    def _verdict(self) -> list[str]:
        needs = "more than " * self.at_least + human(self.needs_bytes)
        card = profiles.get(self.card)
        has = f"the {card.title} has {human(self.memory_bytes)}"
        context = memory.of_context(self.needs_bytes, self.memory_bytes, card.context)
        close = (
            f"Too close to call: needs {needs}, {has}: {memory.in_words(self.needs_bytes, self.memory_bytes)}{context}"
        )
        if not self.fits and self.failed is not None:
            asked = f"asked for {human(self.failed.requested_bytes)}"
            asked += f" at {self.failed.place}" if self.failed.place else ""
            by = f"{self.failed.op}, " if self.failed.op else ""
            return [f"Does not fit: {asked} ({by}{self.failed.when}), {has}"]
        if not self.fits:
            return [close if self.too_close else f"Does not fit: needs {needs}, {has}{context}"]
        room = human(self.memory_bytes - self.needs_bytes)
        fits = f"Fits: needs {needs}, {has}. Room: {room}{context}"
        if self.full_after_steps is not None:
            fits = f"Fits for some {self.full_after_steps} steps only: needs {needs} and grows, {has}"
        lines = [close if self.too_close else fits]
        return [*lines, *self._largest(), *self.notes]

    def _largest(self) -> list[str]:
        if self.larger is None or self.larger.value is None:
            return []
        more = "" if self.larger.fails is None else f", {self.larger.fails} does not"
        more += f"; with more the script fails: {self.larger.refused}" if self.larger.refused else ""
        return [f"Largest batch: {self.larger.value} trains{more}"]

    def _remedies(self) -> list[str]:
        if self.failed is not None:
            return [*self._largest(), "No remedy was tried, as no card has so much", *self.notes]
        if not self.remedies:
            return ["", "Nothing that was tried makes it fit", *self.notes]
        of_fsdp = any(r.changes.of_fsdp for r in self.remedies)
        clock = "; with settings of FSDP, by the phantom's clock" if of_fsdp else ""
        left = self.memory_bytes - int(self.memory_bytes * (1 - HEADROOM))
        return [
            "",
            *rows.lines(self.remedies),
            "",
            f"verified: it trains on the phantom GPU with {human(left)} of the card left free ({self.runs} runs); "
            f"a real card differs by up to {memory.TOO_CLOSE:.0%}",
            f"time: of an optimizer step, against the script as it is, by {self._prices}, float32 products in "
            f"{self.precision}{clock}",
            *self.notes,
        ]
