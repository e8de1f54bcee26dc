"""The verdict on a script and a card, and what there is to do about it."""

from dataclasses import dataclass
from typing import Any

from coopsim.fit import rows
from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import MARGIN
from coopsim.phantom import profiles
from coopsim.script import margin
from coopsim.script.largest import Largest
from coopsim.text import human


@dataclass(frozen=True)
class Fit:
    """The verdict and the remedies; printed, it says them as `coopsim fit` does.

    needs_bytes: the smallest memory for the script as it is. remedies: the verified ones; those that keep the numbers
    first, then the fastest; where there is none, what comes nearest. larger: the largest batch that trains, where the
    script fits and has a place for it. basis: what times are predicted from. runs: how often the script was run. notes:
    what kind of remedy could not be tried, and why.
    """

    fits: bool
    needs_bytes: int
    memory_bytes: int
    remedies: tuple[Remedy, ...]
    basis: str
    runs: int
    card: str
    larger: Largest | None = None
    notes: tuple[str, ...] = ()

    @property
    def too_close(self) -> bool:
        """Is what it needs so near what the card has that a real card may decide otherwise?"""
        return margin.is_close(self.needs_bytes, self.memory_bytes)

    @property
    def solved(self) -> bool:
        """Does it fit, as it is or with a remedy?"""
        return self.fits or any(remedy.verified for remedy in self.remedies)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "fits": self.fits,
            "needs_bytes": self.needs_bytes,
            "memory_bytes": self.memory_bytes,
            "remedies": [remedy.row() for remedy in self.remedies],
        }

    def __str__(self) -> str:
        return "\n".join(self._verdict() if self.fits else [*self._verdict(), *self._remedies()])

    @property
    def _roofline(self) -> str:
        return self.basis.partition(":")[0]

    def _verdict(self) -> list[str]:
        needs = human(self.needs_bytes)
        has = f"the {profiles.get(self.card).title} has {human(self.memory_bytes)}"
        close = f"Too close to call: needs {needs}, {has}: {margin.text(self.needs_bytes, self.memory_bytes)}"
        if not self.fits:
            return [close if self.too_close else f"Does not fit: needs {needs}, {has}"]
        room = human(self.memory_bytes - self.needs_bytes)
        lines = [close if self.too_close else f"Fits: needs {needs}, {has}. Room: {room}"]
        if self.larger is not None and self.larger.value is not None:
            more = "" if self.larger.fails is None else f", {self.larger.fails} does not"
            more += f"; with more the script fails: {self.larger.refused}" if self.larger.refused else ""
            lines.append(f"Largest batch: {self.larger.value} trains{more}")
        return [*lines, *self.notes]

    def _remedies(self) -> list[str]:
        if not self.remedies:
            return ["", "Nothing that was tried makes it fit", *self.notes]
        lines = [] if self.solved else ["", "Nothing that was tried makes it fit. This comes nearest:"]
        lines += ["", *rows.lines(self.remedies)]
        clock = "; with settings of FSDP, by the phantom's clock" * any(r.changes.of_fsdp for r in self.remedies)
        left = self.memory_bytes - int(self.memory_bytes * (1 - MARGIN))
        return [
            *lines,
            "",
            f"verified: it trains on the phantom GPU with {human(left)} of the card left free ({self.runs} runs); "
            f"a real card differs by up to {margin.TOO_CLOSE:.0%}",
            f"time: of an optimizer step, against the script as it is, by the {self._roofline}{clock}",
            *self.notes,
        ]
