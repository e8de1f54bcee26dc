"""The first table of docs/accuracy.md and its figure, from experiments/expected/published.csv."""

from typing import Any

import pandas as pd
import readings

from coopsim.run.memory import TOO_CLOSE
from coopsim.study.figures import save
from experiments.common.pages import wrapped, write_section
from experiments.figures import pictures
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.results import table
from experiments.figures.run import PAGE, PAGE_DPI

DOCS = ROOT / "docs" / "accuracy.md"
NAME = "published"


def expected() -> pd.DataFrame:
    """What compare.py found."""
    return pd.read_csv(EXPECTED / f"{NAME}.csv")


def section() -> str:
    """A row per kind of reading."""
    found = expected()
    rows = [_readings(found, kind) for kind in readings.KINDS]
    peaks = found[(found.kind == "reading") & (found.source != "attention_wedsonlin")].error_percent.abs()
    rows.append(
        [
            f"**all {len(peaks)} but those of attention**",
            "",
            "",
            f"median {peaks.median():.3f} %, {int((peaks < 0.1).sum())} within 0.1 %, largest {peaks.max():.1f} %",
        ]
    )
    head = ["what", "GPU", "equal to the printed digits", "errors"]
    return wrapped(f"{table(head, [*rows, _batches(found)])}\n\n{_snapshots(found)}")


def _readings(found: pd.DataFrame, kind: readings.Kind) -> list[str]:
    part = found[found.source == kind.file.removesuffix(".csv")]
    errors = part.error_percent.abs()
    said = "none" if errors.max() == 0 else f"median {errors.median():.3f} %, largest {errors.max():.3g} %"
    return [kind.what, kind.card, f"{int(part.right.sum())} of {len(part)}", said]


def _batches(found: pd.DataFrame) -> list[str]:
    part = found[found.kind == "batch"]
    wrong = part[~part.right.astype(bool)]
    near = wrong[wrong.room_percent < 100 * TOO_CLOSE]
    return [
        "timm: batches that train, and the next that do not",
        "an RTX 3090, torch 1.12, CUDA 11.3",
        f"{int(part.right.sum())} of {len(part)} called right",
        f"{len(near)} of the {len(wrong)} others are too close to call",
    ]


def _snapshots(found: pd.DataFrame) -> str:
    part = found[found.kind == "snapshot"]
    requests, placed = int(part.requests.sum()), int(part.placed.sum())
    return (
        f"Memory snapshots of GPUs, {len(part)} files: reserved bytes are equal after every request in "
        f"{int(part.right.sum())} of them. {placed} of {requests} requests lie at their recorded address."
    )


def misses() -> list[str]:
    """Readings more than 0.1 % off, and batches called wrong."""
    found = expected()
    far = found[(found.kind == "reading") & (found.error_percent.abs() >= 0.1)]
    wrong = found[(found.kind == "batch") & ~found.right.astype(bool)]
    return [
        *(f"{r.source}: {r.case}, {r.error_percent:+.2f} %" for r in far.itertuples()),
        *(f"timm: {r.case} trains with {r.room_percent:.1f} % to spare, and did not" for r in wrong.itertuples()),
    ]


def write() -> None:
    """Into the page, and the figure beside the others."""
    write_section(NAME, section())
    figure: Any = pictures.draw(NAME, expected())
    save(figure, PAGE / f"{NAME}.png", dpi=PAGE_DPI)
