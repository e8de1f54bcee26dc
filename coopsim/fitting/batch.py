"""The batch size: a placeholder in the command, {} or {64} with the size that is wanted, or the script's own calls."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coopsim.base import typed
from coopsim.base.types import CoopsimError
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.options import BatchOptions, Option

_PLACE = re.compile(r"\{(\d*)\}")
_ADDS_UP = "gradient_accumulation_steps"
_OF_LOADERS = 1  #: the place of batch_size among DataLoader's arguments


@dataclass(frozen=True)
class MadeObject:
    """An object that the script makes, and the user's line that does.

    by: "lines" if that line calls it, "" if a library does. batch: its batch size. times: the number of batches whose
    gradients it adds up, set by `argument`. half: whether it has forward passes compute in 16 bits.
    """

    type: str
    file: str
    line: int
    by: str
    batch: int = 0
    times: int = 1
    argument: str = ""
    half: bool = False


@dataclass(frozen=True)
class Given:
    """What sets the batch size of a script: options of its command, or else its calls.

    arguments: Hugging Face's TrainingArguments, or a subclass. loaders: the data loaders of training steps. adds_up:
    a Lightning Trainer, or an Accelerator whose `accumulate` is used. options: those of the command; None if it has
    none, or none that adds up gradients.
    """

    arguments: MadeObject | None = None
    loaders: tuple[MadeObject, ...] = ()
    adds_up: MadeObject | None = None
    options: BatchOptions | None = None

    @classmethod
    def read(cls, found: dict[str, Any], options: Sequence[Option], *, trainer: bool) -> "Given":
        """Return what the plugin in the script's process has reported (inside/batches.py), and the program's options.

        trainer: whether the script imports transformers' Trainer; without it, TrainingArguments set nothing.
        """
        given: Given = typed.read(cls, found if trainer else found | {"arguments": None})
        return replace(given, options=BatchOptions.find(options))

    @property
    def wanted(self) -> int | None:
        """The batch size: that of the options, or else of the arguments, or else of the loaders; None if these differ.

        None, too, if a library makes the arguments itself.
        """
        if self.options is not None and self.options.wanted is not None:
            return self.options.wanted
        if self.arguments is not None:
            return self.arguments.batch if self.arguments.by else None
        batches = {loader.batch for loader in self.loaders}
        return next(iter(batches)) if len(batches) == 1 else None

    def edits(self, times: int) -> tuple[Edit, ...]:
        """Return the edits for batches `times` times smaller, and `times` times as many per optimizer step."""
        made = self.arguments
        if made is not None:
            batch = (("per_device_train_batch_size", -1, str(made.batch // times)),)
            return tuple(replace(one, arguments=batch + one.arguments) for one in self.adding_up(times))
        smaller = (("batch_size", _OF_LOADERS, f"{{}} // {times}"),)
        loaders = (Edit(loader.file, loader.line, loader.type, smaller) for loader in self.loaders)
        return (*loaders, *self.adding_up(times))

    def adding_up(self, times: int) -> tuple[Edit, ...]:
        """Return the edits for `times` times as many batches per optimizer step, of the same size.

        () if no line of the user's makes the object that adds up; without such an object, the loop is rewritten.
        """
        if self.arguments is not None:
            arguments, name = self.arguments, _ADDS_UP
        elif self.adds_up is not None:
            arguments, name = self.adds_up, self.adds_up.argument
        else:
            return tuple(Edit(one.file, times=times) for one in self.loaders[:1])
        value = (name, -1, str(arguments.times * times))
        return (Edit(arguments.file, arguments.line, arguments.type, (value,)),) if arguments.by == "lines" else ()


@dataclass(frozen=True)
class Batch:
    """A command with a placeholder for the batch size, and the batch size that is wanted.

    given: the script's own calls that set the batch size, where the command has no placeholder.
    """

    template: tuple[str, ...]
    wanted: int
    given: Given | None = None

    def command(self, batch: int) -> tuple[str, ...]:
        """Return the command with the number `batch` in place of every placeholder."""
        return tuple(_PLACE.sub(str(batch), word) for word in self.template)

    def parts(self) -> list[int]:
        """Return the proper divisors of the wanted batch size, the largest first.

        >>> Batch((), 12).parts()
        [6, 4, 3, 2, 1]
        """
        return [n for n in range(self.wanted // 2, 0, -1) if self.wanted % n == 0]


def has_place(command: tuple[str, ...]) -> bool:
    """Return whether a command has a placeholder for the batch size: {} or {64}, in any word."""
    return any(_PLACE.search(word) for word in command)


def wanted(command: tuple[str, ...]) -> int | None:
    """Return the number in the placeholder of a command; None for {}, which means the script's default.

    The command must have a placeholder. Raises CoopsimError for several numbers, and for one that is out of range.
    """
    numbers = {found for word in command for found in _PLACE.findall(word)}
    if len(numbers) > 1:
        raise CoopsimError(f"{{{'} and {'.join(sorted(numbers))}}}: the command names more than one batch")
    number = next(iter(numbers))
    if number and not 1 <= int(number) <= 1_000_000:
        raise CoopsimError(f"{{{number}}}: a batch is a whole number from 1 to a million")
    return int(number) if number else None


def by_default(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command without the options whose value is {}, so that the script takes its default batch size.

    Raises CoopsimError if {} is not the value of an option.

    >>> by_default(("python", "train.py", "--batch", "{}", "--lr=1")), by_default(("train.py", "--batch={}"))
    (('python', 'train.py', '--lr=1'), ('train.py',))
    """
    words = list(command)
    for i, word in reversed(list(enumerate(command))):
        if word == "{}" and i and words[i - 1].startswith("-"):
            del words[i - 1 : i + 1]
        elif word.startswith("-") and word.endswith("={}"):
            del words[i]
        elif "{}" in word:
            raise CoopsimError(f"{word}: which batch do you want? Write it between the braces: {{64}}")
    return tuple(words)
