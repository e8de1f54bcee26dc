"""A remedy: what to change in a script so that it fits, and the figures of its trial.

Its kind is the module of remedies/ that proposes it. There, `proposal` and the like return a remedy that has not been
tried, and `propose` has such remedies tried (bench.py); those that suffice, with which the script fits the card, are
found.
"""

import shlex
from dataclasses import asdict, dataclass, replace
from typing import Any

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.options import Option

#: The keys of --json.
KEYS = (
    *("kind", "text", "lines", "peak_device_bytes", "host_bytes", "time_ratio", "same_numbers", "verified"),
    "stand_in",
)

#: Why the lines of micro-batches are not run as they are: with them it takes fewer steps.
COUNTS_BATCHES = "the script ends after so many batches, which are smaller now: let it count steps"

#: Kinds that train otherwise: other precision, updates or batches. Where others change the numbers, it is by rounding.
_TRAINS_OTHERWISE = {"batch", "precision", "weights", "optimizer", "cards"}


@dataclass(frozen=True)
class Remedy:
    """A remedy. `kind` is one kind, or several joined by " + ". `lines` are to be pasted, or typed.

    `peak_device_bytes`: peak of the memory taken of the card, context included. `host_bytes`: of the host's memory that
    the remedy takes for values of the card. `time_ratio`: the time of an optimizer step, by prices of ops, divided by
    that of the script as it is. `same_numbers`: whether results are the same, bit for bit. `verified`: whether the
    script trained with it in a run on the phantom GPU. That run had the lines themselves, in a copy of the script, or
    `stand_in` says why it could not, and coopsim made the same change inside the script's process. `changes` and
    `command` are what ran. `after_model` are the lines to paste where the model has been made, `edits` other changes to
    the user's files. `patch` is a diff of these files, or, if `patched` is false, the reason why there is none. `texts`
    are the files and their new texts, if the lines themselves ran. `options`: those of the program that `command` sets,
    with their values. `placed`: whether `lines` are for a file of the user's, a command or the environment, and not for
    what a library makes.
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
    host_bytes: int = 0
    options: tuple[tuple[Option, str], ...] = ()
    placed: bool = True

    @property
    def key(self) -> str:
        """What tells remedies from each other: of several that work with one key, the last is kept.

        It is the kind, with the text for kinds of which there are several.
        """
        if self.options and self.kind != "micro-batches":
            return f"{self.kind}, {self.text}"
        if self.kind in ("settings", "optimizer", "loss", "unused", "evaluation"):
            return f"{self.kind}: {self.text}"
        selective = any("create_selective_checkpoint_contexts" in line for line in self.lines)
        return f"{self.kind}, selective" if selective else self.kind

    @property
    def order(self) -> tuple[int, int, float, int]:
        """The sort key: by where the lines go, by what becomes of the numbers, by time, and by peak.

        Options of the program come first, lines for no file of the user's last. The same numbers come before numbers
        that differ by rounding, and these before another training.
        """
        otherwise = not _TRAINS_OTHERWISE.isdisjoint(self.kind.split(" + "))
        numbers = 0 if self.same_numbers else 1 + otherwise
        place = 0 if self.options else 1 if self.placed else 2
        return place, numbers, round(self.time_ratio, 3), self.peak_device_bytes

    @property
    def typed(self) -> str:
        """The command, as typed in a shell."""
        return shlex.join(("python", *self.command) if self.command[0].endswith(".py") else self.command)

    def with_(self, other: "Remedy") -> "Remedy":
        """Return both remedies joined, as one that has not been tried; where both set something, `other` wins."""
        kinds = dict.fromkeys(f"{self.kind} + {other.kind}".split(" + "))
        command = other.command
        for option, value in self.options:
            command = option.added(command, value)
        lines = [line for line in self.lines + other.lines if line not in (self.typed, other.typed)]
        if len(lines) < len(self.lines + other.lines):
            lines.insert(0, replace(self, command=command).typed)
        return Remedy(
            kind=" + ".join(kinds),
            text=f"{self.text}; {other.text}",
            lines=tuple(sorted(lines, key=lambda line: not line.startswith("export "))),
            peak_device_bytes=0,
            time_ratio=0.0,
            same_numbers=self.same_numbers and other.same_numbers,
            verified=False,
            changes=self.changes.with_(other.changes),
            command=command,
            after_model=self.after_model + other.after_model,
            edits=self.edits + other.edits,
            options=self.options + other.options,
            placed=self.placed and other.placed,
        )

    def row(self) -> dict[str, Any]:
        """Return the remedy as `--json` prints it: its fields named in KEYS."""
        found = asdict(self)
        return {key: found[key] for key in KEYS}


def with_options(remedy: Remedy, options: tuple[tuple[Option, str], ...]) -> Remedy:
    """Return a remedy, whose command has these options' values, with the lines for them: those of files are edits."""
    edits = tuple(Edit(option.file, setting=(option.shown, value)) for option, value in options if option.file)
    lines = [f"{one.shown}: {value}  # in {one.file}" for one, value in options if one.file]
    typed = [remedy.typed] if len(lines) < len(options) else []
    return replace(remedy, lines=(*typed, *lines), edits=(*remedy.edits, *edits), options=options)
