"""A remedy: what to change of a script so that it fits, and what came of trying it."""

from dataclasses import asdict, dataclass
from typing import Any

from coopsim.fit.changes import Changes
from coopsim.fit.edits import Edit

#: The keys of --json.
KEYS = ("kind", "text", "lines", "peak_device_bytes", "time_ratio", "same_numbers", "verified", "stand_in")


@dataclass(frozen=True)
class Remedy:
    """`kind` is one, or several joined by " + ". `lines` are to be pasted, or to be typed.

    `peak_device_bytes`: taken of the card at the peak, context included. `time_ratio`: of an optimizer step, by the
    roofline, to that of the script as it is. `same_numbers`: bit for bit. `verified`: the script was run with it on the
    phantom GPU, and trained. What ran were the lines as they are, in a copy of the script; or `stand_in` says why they
    could not be, and coopsim made the same change inside the script's process. `changes` and `command` are what ran.
    `after_model` are the lines to be pasted where the model has been made, `edits` what else changes in the user's
    files. `patch` is a diff of these, or, if `patched` is false, why there is none; `texts` are the files with it.
    """

    kind: str
    text: str
    lines: tuple[str, ...]
    peak_device_bytes: int
    time_ratio: float
    same_numbers: bool
    verified: bool
    changes: Changes
    command: tuple[str, ...]
    after_model: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    patch: str = ""
    patched: bool = False
    stand_in: str = ""
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Remedies of one key are tries of the same, of which the last that worked counts."""
        if self.kind in ("settings", "optimizer", "loss"):
            return f"{self.kind}: {self.text}"
        return f"{self.kind}, selective" if self.changes.save else self.kind

    @property
    def order(self) -> tuple[bool, bool, float, int]:
        """Verified ones first, then those with the same numbers, then the fastest, then the smallest."""
        return not self.verified, not self.same_numbers, round(self.time_ratio, 3), self.peak_device_bytes

    def with_(self, other: "Remedy") -> "Remedy":
        """Both, which have not been tried together."""
        kinds = dict.fromkeys(f"{self.kind} + {other.kind}".split(" + "))
        return Remedy(
            kind=" + ".join(kinds),
            text=f"{self.text}; {other.text}",
            lines=tuple(sorted(self.lines + other.lines, key=lambda line: not line.startswith("export "))),
            peak_device_bytes=0,
            time_ratio=0.0,
            same_numbers=self.same_numbers and other.same_numbers,
            verified=False,
            changes=self.changes.with_(other.changes),
            command=other.command,
            after_model=self.after_model + other.after_model,
            edits=self.edits + other.edits,
        )

    def row(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        return {key: found[key] for key in KEYS}
