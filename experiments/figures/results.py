"""Tables of the pages, from the expected results: `run.py --update` writes them, a test compares them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from experiments.common import arguments
from experiments.common.pages import write_section
from experiments.figures.experiment import EXPECTED
from experiments.figures.pictures import MODELS, POLICIES

if TYPE_CHECKING:
    import pandas as pd

CARD = "h100"
HALF = 0.5
NAMES = ("DTR", "DTE", "Coop")


def expected(name: str) -> "pd.DataFrame":
    """An expected result."""
    import pandas as pd

    return pd.read_csv(EXPECTED / f"{name}.csv")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def at(df: "pd.DataFrame", **values: object) -> "pd.Series":
    """The one row with these values."""
    for column, value in values.items():
        df = df[df[column] == value]
    (row,) = (r for _, r in df.iterrows())
    return row


def percent(row: "pd.Series", column: str = "overhead", minus: float = 1) -> str:
    """Mean ± standard deviation of a band, in percent, and how many of its budgets fit if not all do."""
    if row.fits == 0:
        return "does not fit"
    some = f" ({row.fits} of {row.points})" if row.fits < row.points else ""
    return f"{100 * (row[column] - minus):.1f} ± {100 * row[column + '_spread']:.1f}{some}"


def both(cells: Callable[["pd.DataFrame", str], Sequence[str]], name: str) -> list[list[str]]:
    """A row per model, each cell by modelled and by measured op times. cells: of a table and a model's name there."""
    modelled, measured = expected(name), expected(f"{name}-{CARD}")
    rows = []
    for m in MODELS:
        pairs = zip(cells(modelled, m), cells(measured, f"{m}@{CARD}"), strict=True)
        rows.append([m, *(a if a == b else f"{a} → {b}" for a, b in pairs)])
    return rows


def overhead() -> str:
    """Overhead at half memory by both costs; the CSVs have every memory ratio."""
    rows = both(lambda df, m: [percent(at(df, trace=m, policy=p, band_center=HALF)) for p in POLICIES], "overhead")
    return table(["overhead in % at half memory", *NAMES], rows)


def fragmentation() -> str:
    """Fragmentation rates at half memory by both costs; how often the modelled ones stay below 5 %."""

    def cells(df: "pd.DataFrame", m: str) -> list[str]:
        found = [at(df, trace=m, policy=p, band_center=HALF) for p in POLICIES]
        return ["does not fit" if r.fits == 0 else f"{100 * r.fragmentation_rate:.1f}" for r in found]

    df = expected("overhead")
    counts = []
    for p in POLICIES:
        rates = df[(df.policy == p) & (df.fits > 0)].fragmentation_rate.dropna()
        counts.append(f"{(rates < 0.05).sum()} of {len(rates)}")
    rows = [*both(cells, "overhead"), ["bands under 5 %, all ratios, modelled", *counts]]
    return table(["fragmentation rate in % at half memory", *NAMES], rows)


def smallest() -> str:
    """Smallest safe budgets by both costs."""

    def cells(df: "pd.DataFrame", m: str) -> list[str]:
        safe = [at(df, trace=m, policy=p).safe for p in POLICIES]
        return [*(f"{100 * s:.2f}" for s in safe), *(f"{s / safe[2]:.2f}" for s in safe[:2])]

    head = ["smallest safe budget, % of peak", *NAMES, "DTR ÷ Coop", "DTE ÷ Coop"]
    return table(head, both(cells, "feasibility"))


def ablation() -> str:
    """Overhead of Coop without each part at half memory; the CSV has fragmentation, and every ratio."""
    df = expected("ablation")
    names = ("coop", "coop:search=greedy,divisor=hole", "coop:placement=low", "coop:in_place=copy_outputs")
    head = ["overhead in % at half memory", "Coop", "without its window", "without two ends", "without in-place"]
    rows = [[m, *(percent(at(df, trace=m, policy=p, band_center=HALF)) for p in names)] for m in MODELS]
    return table(head, rows)


def stweaver() -> str:
    """How much of the caching allocator's fragmentation a plan takes away."""
    df = expected("allocators").set_index(["trace", "allocator"]).fragmentation.unstack()
    kinds = {
        "cuda-caching (expandable_segments:True)": "expandable segments",
        "planned": "a plan of the first step",
        "planned, all steps": "a plan of all steps",
    }
    rows = []
    for kind, name in kinds.items():
        less = 100 * (1 - df[kind] / df["cuda-caching"])
        ends = (f"{less[trace]:.1f} ({trace})" for trace in (less.idxmin(), less.idxmax()))
        rows.append([name, f"{less.mean():.1f}", *ends])
    return table([f"less fragmentation on {len(df)} traces, %", "mean", "least", "most"], rows)


def sections() -> dict[str, str]:
    """What stands between the marks of pages, by name."""
    return {
        "paper overhead": overhead(),
        "paper fragmentation": fragmentation(),
        "paper smallest": smallest(),
        "ablation": ablation(),
        "stweaver": stweaver(),
    }


def write() -> None:
    """Write them into the pages."""
    for name, text in sections().items():
        write_section(name, text)


if __name__ == "__main__":
    arguments.none(__doc__)
    write()
