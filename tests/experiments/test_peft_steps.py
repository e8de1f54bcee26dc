"""What the page says of peft's runs of 5000 steps is what the table has."""

import pandas as pd

from tests.conftest import ROOT

TABLE = pd.read_csv(ROOT / "experiments" / "expected" / "peft-steps.csv", index_col="experiment")
FITTED = "lora/llama-3.2-3B-rank32"


def errors(of: str) -> pd.Series:
    """Relative errors of the rows that were not fitted."""
    return (TABLE[f"predicted_{of}"] / TABLE[f"measured_{of}"] - 1).drop(FITTED).abs()


def test_the_page_says_what_the_table_has() -> None:
    mean, p99, most = (errors(of) for of in ("mean", "p99", "max"))
    page = " ".join((ROOT / "docs" / "long-runs.md").read_text(encoding="utf-8").split())
    figures = (
        f"| all {len(mean)} | {mean.max():.1%} | {p99.max():.1%} | {most.max():.1%} (median {most.median():.2%}) |"
    )
    assert figures.replace("%", " %") in page
