"""Measurements by others, as two files: peaks of whole runs, and runs repeated under a cap of the allocator.

Peaks (CSV): model, optimizer, batch, gpu, ground_bytes; optional real_oom (1: that run really ran out of memory, and
ground_bytes is what it had by then) and pred_NAME, the bytes that another estimator predicted. Other columns are
ignored. Capped runs (JSON list): model, opt, batch, gpu, limit_mib, real_oom, ground. A gpu is a card's full name,
blanks or dashes between its words, or one word of it ("4060").
"""

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coopsim.base.types import CoopsimError
from coopsim.cards import profiles


@dataclass(frozen=True)
class Record:
    """One measured run. `limit_mib` is the cap of the allocator, None without one."""

    model: str
    optimizer: str
    batch: int
    card: str
    measured_bytes: int
    out_of_memory: bool = False
    limit_mib: float | None = None
    predictions: dict[str, int] = field(default_factory=dict, hash=False, compare=False)

    @property
    def command(self) -> list[str]:
        """The arguments of train.py that repeat this run."""
        options = ["--model", self.model, "--optimizer", self.optimizer, "--batch", str(self.batch)]
        return options + ([] if self.limit_mib is None else ["--memory-limit", str(self.limit_mib)])


def peaks(path: Path) -> list[Record]:
    """The records of a CSV file. Raises CoopsimError if it is not one."""
    with _open(path) as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise CoopsimError(f"{path} has no records")
    return [_of(path, number, row, _peak) for number, row in enumerate(rows, 2)]


def capped(path: Path, cards: Iterable[str]) -> list[Record]:
    """The records of a JSON file; a gpu that fits several cards is one of `cards`. Raises CoopsimError."""
    with _open(path) as file:
        try:
            rows = json.load(file)
        except ValueError as error:
            raise CoopsimError(f"{path} is not JSON: {error}") from None
    if not isinstance(rows, list):
        raise CoopsimError(f"{path} is not a list of records")
    prefer = set(cards)
    return [_of(path, number, row, lambda row: _cap(row, prefer)) for number, row in enumerate(rows, 1)]


def card(gpu: str, prefer: Iterable[str] = ()) -> str:
    """The profile for a GPU's name. Raises CoopsimError if none or several fit and `prefer` does not decide."""
    words = _words(gpu)
    titles = {name: _words(profiles.get(name).title) for name in profiles.names()}
    found = [name for name, title in titles.items() if title == words]
    found = found or [name for name, title in titles.items() if set(words) <= set(title)]
    if len(found) > 1:
        fewest = min(len(titles[n]) for n in found)  # an RTX 4060 is no 4060 Ti
        found = [n for n in found if n in set(prefer)] or [n for n in found if len(titles[n]) == fewest]
    if len(found) != 1:
        raise CoopsimError(f"no card for {gpu!r}: {', '.join(found) or 'none'} of {', '.join(titles)}")
    return found[0]


def _words(name: str) -> list[str]:
    return re.split(r"[\s-]+", name.strip().lower())


def _open(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise CoopsimError(f"cannot read {path}: {error.strerror}") from None


def _of(path: Path, number: int, row: Any, parse: Any) -> Record:
    try:
        return parse(row)
    except KeyError as error:
        raise CoopsimError(f"{path}, record {number}: no {error.args[0]}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise CoopsimError(f"{path}, record {number}: {error}") from None


def _peak(row: dict[str, str]) -> Record:
    predictions = {k.removeprefix("pred_"): int(v) for k, v in row.items() if k.startswith("pred_") and v}
    return Record(
        row["model"],
        row["optimizer"],
        int(row["batch"]),
        card(row["gpu"]),
        int(row["ground_bytes"]),
        row.get("real_oom", "0") not in ("", "0"),
        predictions=predictions,
    )


def _cap(row: dict[str, Any], prefer: set[str]) -> Record:
    return Record(
        row["model"],
        row["opt"],
        int(row["batch"]),
        card(row["gpu"], prefer),
        int(row["ground"]),
        bool(row["real_oom"]),
        float(row["limit_mib"]),
    )
