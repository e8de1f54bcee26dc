"""Rows of the table of measured runs, and what was predicted of each."""

import csv
from dataclasses import dataclass
from pathlib import Path

from coopsim.base.types import CoopsimError

CARD = "l40s"
TASKS = ("MetaMathQA", "image-gen")


@dataclass(frozen=True)
class Row:
    """A run on the card, on the day `created`.

    reserved: the most, less what there was before the model; allocated: the mean after a step; in bytes.
    """

    task: str
    experiment: str
    folder: Path
    reserved: int
    allocated: int
    trainable: int
    total: int
    created: str

    @property
    def name(self) -> str:
        return f"{self.task}/{self.experiment}"


def read(data: Path) -> list[Row]:
    """Those of truth.csv, with their folders in configs/. CoopsimError for other files."""
    path = data / "truth.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [_row(data, r) for r in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise CoopsimError(f"{path}: {e}") from None
    except (KeyError, TypeError, ValueError) as e:
        raise CoopsimError(f"{path}: not such a table: {type(e).__name__} {e}") from None
    for row in rows:
        if row.task not in TASKS:
            raise CoopsimError(f"{path}: no script for the task {row.task}; known: {', '.join(TASKS)}")
    return rows


def _row(data: Path, r: dict[str, str]) -> Row:
    numbers = (int(r[c]) for c in ("max_reserved_bytes", "allocated_mean_after_step", "trainable", "total"))
    return Row(
        r["task"], r["experiment"], data / "configs" / r["task"] / r["experiment"], *numbers, created=r["created"]
    )
