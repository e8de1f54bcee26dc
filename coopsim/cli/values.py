"""Values of options, as argparse checks them."""

import argparse
from collections.abc import Sequence
from typing import Any

from coopsim import renamed
from coopsim.types import NEWEST_TORCH, SIMULATED_TORCH

#: What --torch is, for help.
OF_TORCH = f"version of PyTorch, {SIMULATED_TORCH} (default: {NEWEST_TORCH})"
_MOST = 1_000_000  #: steps, neighbours, processes


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or len(text) > 18 or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to a million")
    return int(text)


def positives(text: str) -> list[int]:
    """Whole numbers above 0, comma-separated."""
    return [positive(part.strip()) for part in text.split(",")]


def natural(text: str) -> int:
    """A whole number."""
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number")
    return int(text)


def span(text: str) -> tuple[int, int]:
    """Two whole numbers above 0, the smaller first."""
    low, colon, high = text.partition(":")
    if not colon or (ends := (positive(low), positive(high)))[0] > ends[1]:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not LOW:HIGH, such as 1:4096")
    return ends


def tolerance(text: str) -> float:
    """A percentage, as a share of 1; 0% is none."""
    return 0.0 if text in ("0%", "0.0%") else percent(text)


def percent(text: str) -> float:
    """A percentage, as a share of 1."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not (text.endswith("%") and 0 < value < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0% and 100%")
    return value


class Renamed(argparse.Action):
    """The old name of an option, understood for one release with a line on stderr."""

    def __init__(self, option_strings: Sequence[str], dest: str, **how: Any) -> None:
        super().__init__(option_strings, dest, **how | {"help": argparse.SUPPRESS})

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        renamed.warn(str(option), f"--{self.dest.replace('_', '-')}")
        setattr(namespace, self.dest, values)
