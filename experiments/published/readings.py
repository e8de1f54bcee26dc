"""Peaks that others read on real cards, and what `coopsim phantom run` says: a file of each, with both."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coopsim.base.types import CoopsimError


@dataclass(frozen=True)
class Kind:
    """A file. case: the columns that name a reading. what, card: for the table."""

    file: str
    what: str
    card: str
    measured: str
    predicted: str
    case: tuple[str, ...]


KINDS = (
    Kind(
        "attention_wedsonlin.csv",
        "attention, eager and compiled: memory before the backward pass",
        "a Hopper GPU, torch 2.11",
        "measured_mib",
        "phantom_mib_torch_2.14.1",
        ("suite", "d_model", "seq_len", "reading"),
    ),
    Kind(
        "transformer_2.7b_damek.csv",
        "a transformer of 3.4 billion parameters: peaks of passes and of training steps, fp32 and bf16",
        "a GPU not named, torch 2.6",
        "measured_gib",
        "phantom_run_gib",
        ("context_length", "mode", "autocast_bf16"),
    ),
    Kind(
        "ddp_wedsonlin.csv",
        "two ranks, the optimizer sharded or not: allocated and peak in three phases",
        "two GPUs not named, torch 2.11",
        "measured_gib",
        "phantom_gib",
        ("mode", "rank", "phase", "reading"),
    ),
    Kind(
        "litgpt.csv",
        "fine-tuning by LitGPT, LoRA and full: peaks",
        "an A10G, torch of 2024",
        "measured_gb",
        "phantom_run_gb",
        ("config",),
    ),
)


@dataclass(frozen=True)
class Reading:
    """error: of the prediction, in percent. equal: to as many digits as were printed."""

    source: str
    case: str
    error: float
    equal: bool


def rows(path: Path) -> list[dict[str, str]]:
    """A file's. CoopsimError if it cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise CoopsimError(f"{path}: {e}") from None


def read(folder: Path, kind: Kind) -> Iterator[Reading]:
    """Of one file. CoopsimError for one without these columns, or with what is no number in them."""
    found = rows(folder / kind.file)
    try:
        digits = max(len(row[kind.measured].partition(".")[2]) for row in found)
        for row in found:
            measured, predicted = float(row[kind.measured]), float(row[kind.predicted])
            case = ", ".join(row[name] for name in kind.case)
            equal = f"{predicted:.{digits}f}" == f"{measured:.{digits}f}"
            yield Reading(Path(kind.file).stem, case, 100 * (predicted / measured - 1), equal)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as e:
        raise CoopsimError(f"{folder / kind.file}: not such a table: {type(e).__name__} {e}") from None
