"""The batch size: a placeholder in the command, {} or {64} with the size that is wanted, or the script's own calls."""

import re
from dataclasses import dataclass

from coopsim.fit.given import Given
from coopsim.types import CoopsimError

_PLACE = re.compile(r"\{(\d*)\}")


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
