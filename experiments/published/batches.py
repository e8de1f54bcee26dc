"""Batches with which models trained on a card, and the next larger ones with which they did not (timm's benchmark)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import readings

from coopsim.base.types import CoopsimError
from coopsim.cards import profiles

FILE = "timm_rtx3090.csv"
CARD = "rtx-3090"


@dataclass(frozen=True)
class Batch:
    """trained, trains: on the card, and on the phantom GPU. room: what it leaves of the card there, in percent.

    It is that of the least memory with which it trains, the peak of allocated bytes and the context; nan where it runs
    out of memory.
    """

    case: str
    trained: bool
    trains: bool
    room: float


def read(folder: Path) -> Iterator[Batch]:
    """Of timm's file. CoopsimError for one without these columns."""
    card = profiles.get(CARD)
    try:
        for row in readings.rows(folder / FILE):
            trains = row["phantom"] == "ok"
            needs = int(row["phantom_peak_allocated"]) + (card.context_mib << 20)
            room = 100 * (1 - needs / card.memory_bytes) if trains else float("nan")
            yield Batch(f"{row['model']}, batch {row['batch']}", row["measured"] == "ok", trains, room)
    except (KeyError, TypeError, ValueError) as e:
        raise CoopsimError(f"{folder / FILE}: not such a table: {type(e).__name__} {e}") from None
