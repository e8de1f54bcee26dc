"""Types of options for argparse: each parses a value, and raises ArgumentTypeError if it is invalid."""

import argparse
import os

from coopsim.base.option import natural as natural
from coopsim.base.option import positive as positive
from coopsim.base.types import NEWEST_TORCH, SIMULATED_TORCH

#: The help of --torch.
OF_TORCH = f"version of PyTorch, {SIMULATED_TORCH} (default: {NEWEST_TORCH})"
_UNITS = {"s": 1, "m": 60, "h": 3600}


def card(text: str) -> str:
    """Return a card's name as it is, and the path of a card file in full, as the script may run in another folder."""
    return os.path.abspath(text) if text.endswith(".json") else text


def positives(text: str) -> list[int]:
    """Parse comma-separated whole numbers from 1 to a million."""
    return [positive(part.strip()) for part in text.split(",")]


def duration(text: str) -> float:
    """Parse a duration above 0, such as 90s, 5m or 1h; return seconds."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdecimal()) or len(number) > 6 or not int(number):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a duration, such as 90s, 5m or 1h")
    return float(int(number) * _UNITS[unit])


def span(text: str) -> tuple[int, int]:
    """Parse LOW:HIGH, two whole numbers above 0, LOW not larger than HIGH."""
    low, colon, high = text.partition(":")
    if not colon or (ends := (positive(low), positive(high)))[0] > ends[1]:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not LOW:HIGH, such as 1:4096")
    return ends


def percent(text: str) -> float:
    """Parse a percentage between 0% and 100%, exclusive; return a fraction."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not (text.endswith("%") and 0 < value < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0% and 100%")
    return value
