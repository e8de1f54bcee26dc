"""The tables of docs/fine-tuning.md and their figures, from experiments/expected/peft.csv and fine-tuning.csv."""

from typing import Any

import pandas as pd

from coopsim.study.figures import save
from experiments.common.pages import write_section
from experiments.figures import pictures
from experiments.figures.draw.methods import KINDS as METHOD_KINDS
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.results import table

DOCS = ROOT / "docs" / "fine-tuning.md"
IMAGES, DPI = ROOT / "docs" / "images" / "results", 140  # as of the other experiments
#: The row that the one fitted number, the longest batch, is taken from.
FITTED = "lora/llama-3.2-3B-rank32"
MODELS = {"MetaMathQA": "Llama-3.2-3B, texts", "image-gen": "FLUX.2-klein-base-4B, images"}
_GIB = 1 << 30
_SHOWN = 2.0  # percent; rows that are further off are listed


def expected(name: str) -> pd.DataFrame:
    """What run.py (peft) or methods.py (fine-tuning) found."""
    return pd.read_csv(EXPECTED / f"{name}.csv")


def summary(errors: "pd.Series[float]") -> str:
    """In one line: median, and how many are near."""
    e = errors.abs()
    near = f"{int((e <= 0.5).sum())} within 0.5 %, {int((e <= _SHOWN).sum())} within {_SHOWN:.0f} %"
    return f"median {e.median():.2f} %, {near}, largest {e.max():.1f} %"


def section() -> str:
    """A row per task, and the misses."""
    found = predicted(expected("peft"))
    rows = [[MODELS[task], f"{len(part)}", summary(part.error_percent)] for task, part in found.groupby("task")]
    rows.append(["**all**", f"{len(found)}", summary(found.error_percent)])
    far = [
        [f"{r.experiment}", gib(r.measured_bytes), gib(r.predicted_bytes), f"{r.error_percent:+.1f} %"]
        for r in misses(found).itertuples()
    ]
    text = table(["model", "runs", "error of the peak of reserved memory"], rows)
    return f"{text}\n\n{table(['further off', 'measured', 'predicted', 'error'], far)}" if far else text


def predicted(found: pd.DataFrame) -> pd.DataFrame:
    """Without the row that the longest batch is taken from."""
    return found[found.experiment != FITTED]


def misses(found: pd.DataFrame) -> pd.DataFrame:
    """Rows that are further off than the page's limit, worst first."""
    far = found[found.error_percent.abs() > _SHOWN]
    return far.sort_values("error_percent", key=lambda e: -e.abs())


def methods() -> str:
    """A row per way to fine-tune: what its peak is made of."""
    rows = [
        [r.title, *(gib(getattr(r, kind)) for kind in METHOD_KINDS), gib(r.peak_reserved_bytes)]
        for r in expected("fine-tuning").itertuples()
    ]
    return table(["GiB", *(label for label, _ in METHOD_KINDS.values()), "reserved"], rows)


def gib(nbytes: float) -> str:
    """In GiB, with two digits."""
    return f"{nbytes / _GIB:.2f}"


def write(name: str) -> None:
    """The section of a table, and its figure beside the others. name: peft or fine-tuning."""
    write_section(name, section() if name == "peft" else methods())
    figure: Any = pictures.draw("peft" if name == "peft" else "methods", expected(name))
    save(figure, IMAGES / f"{name}.png", dpi=DPI)
