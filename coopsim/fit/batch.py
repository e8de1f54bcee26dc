"""The place of the batch: in the command, as {}, or {64} for the batch that is wanted; or in the script's own calls."""

import re
from dataclasses import dataclass

from coopsim.fit.given import Given
from coopsim.types import CoopsimError

_PLACE = re.compile(r"\{(\d*)\}")


@dataclass(frozen=True)
class Batch:
    """A command with a place for the batch, and the one that is wanted; `given`: the script itself says the batch."""

    template: tuple[str, ...]
    wanted: int
    given: Given | None = None

    def command(self, batch: int) -> tuple[str, ...]:
        """With a number in its place."""
        return tuple(_PLACE.sub(str(batch), word) for word in self.template)

    def parts(self) -> list[int]:
        """Smaller batches that make up the one that is wanted, the largest first.

        >>> Batch((), 12).parts()
        [6, 4, 3, 2, 1]
        """
        return [n for n in range(self.wanted // 2, 0, -1) if self.wanted % n == 0]


def has_place(command: tuple[str, ...]) -> bool:
    """Does a command have a place for the batch?"""
    return any(_PLACE.search(word) for word in command)


def wanted(command: tuple[str, ...]) -> int | None:
    """The number that stands in the place; None if there is none, which leaves it to the script's default."""
    numbers = {found for word in command for found in _PLACE.findall(word)}
    if len(numbers) > 1:
        raise CoopsimError(f"{{{'} and {'.join(sorted(numbers))}}}: the command names more than one batch")
    number = next(iter(numbers))
    if number and not 1 <= int(number) <= 1_000_000:
        raise CoopsimError(f"{{{number}}}: a batch is a whole number from 1 to a million")
    return int(number) if number else None


def by_default(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command without the option that the place belongs to.

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
