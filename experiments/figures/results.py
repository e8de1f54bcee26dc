"""Tables of the pages, from the expected results: `run.py --update` writes them, a test compares them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from experiments.common import arguments
from experiments.common.pages import write_section
from experiments.figures.experiment import EXPECTED
from experiments.figures.pictures import IN_WORDS, MODELS, POLICIES, case

if TYPE_CHECKING:
    import pandas as pd

CARD = "h100"
HALF = 0.5
STEPS = 10  # of overhead.toml, the default
PLAIN = "as published"


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


def overhead() -> str:
    """Overhead at two memory ratios; the CSV has all."""
    df = expected("overhead")
    parts = []
    for ratio in (0.7, 0.5):
        rows = [[m, *(percent(at(df, trace=m, policy=p, band_center=ratio)) for p in POLICIES)] for m in MODELS]
        parts.append(table([f"overhead in % at {ratio:.0%}", "DTR", "DTE", "Coop"], rows))
    return "\n\n".join(parts)


def fragmentation() -> str:
    """Both published rates at half memory; how often they stay below 5 %."""
    df = expected("overhead")
    rows = []
    for m in MODELS:
        cells = []
        for p in POLICIES:
            row = at(df, trace=m, policy=p, band_center=HALF)
            a, b = 100 * row.fragmentation_rate, 100 * row.fragmentation_rate_incl
            cells.append("does not fit" if row.fits == 0 else f"{a:.1f} / {b:.1f}")
        rows.append([m, *cells])
    text = table(["rate in % at half memory (request not counted / counted as free)", "DTR", "DTE", "Coop"], rows)
    counts = []
    for p, name in zip(POLICIES, ("DTR", "DTE", "Coop"), strict=True):
        fits = df[(df.policy == p) & (df.fits > 0)].dropna(subset=["fragmentation_rate"])
        under = [int((fits[c] < 0.05).sum()) for c in ("fragmentation_rate", "fragmentation_rate_incl")]
        worst = fits.loc[fits.fragmentation_rate.idxmax()]
        counts.append(
            [
                name,
                str(len(fits)),
                *map(str, under),
                f"{100 * worst.fragmentation_rate:.1f} ({worst.trace}, {worst.band_center:.0%})",
            ]
        )
    head = [
        "policy",
        "bands in which it fits and searches",
        "under 5 %, not counted",
        "under 5 %, counted",
        "highest, not counted, %",
    ]
    return f"{text}\n\n{table(head, counts)}"


def search() -> str:
    """Work of the searches at half memory."""
    df = expected("overhead")
    rows = []
    for m in MODELS:
        found = [at(df, trace=m, policy=p, band_center=HALF) for p in POLICIES]
        one = ["-" if r.fits == 0 else f"{r.search_visits / r.searches:,.0f}" for r in found]
        step = ["-" if r.fits == 0 else f"{r.search_visits / STEPS:,.0f}" for r in found]
        rows.append([m, " / ".join(one), " / ".join(step)])
    head = ["blocks visited at half memory, DTR / DTE / Coop", "for one allocation that searches", "in a step"]
    return table(head, rows)


def smallest() -> str:
    """Smallest budgets."""
    df = expected("feasibility")
    rows = []
    for m in MODELS:
        found = [at(df, trace=m, policy=p) for p in POLICIES]
        cells = [f"{100 * r.safe:.2f} (from {100 * r.smallest:.2f}, {r.failing})" for r in found]
        rows.append([m, *cells, *(f"{r.safe / found[2].safe:.2f}" for r in found[:2])])
    head = [
        "smallest safe budget, % of peak (from where it fits at all, failing ranges above)",
        "DTR",
        "DTE",
        "Coop",
        "DTR ÷ Coop",
        "DTE ÷ Coop",
    ]
    return table(head, rows)


def both(cells: Callable[["pd.DataFrame", str], Sequence[str]], name: str) -> list[list[str]]:
    """A row per model, each cell by modelled and by measured op times. cells: of a table and a model's name there."""
    modelled, measured = expected(name), expected(f"{name}-{CARD}")
    rows = []
    for m in MODELS:
        pairs = zip(cells(modelled, m), cells(measured, f"{m}@{CARD}"), strict=True)
        rows.append([m, *(a if a == b else f"{a} → {b}" for a, b in pairs)])
    return rows


def overhead_measured(ratio: float) -> str:
    """Overhead at a memory ratio by both costs."""
    rows = both(lambda df, m: [percent(at(df, trace=m, policy=p, band_center=ratio)) for p in POLICIES], "overhead")
    return table([f"overhead in % at {ratio:.0%}", "DTR", "DTE", "Coop"], rows)


def fragmentation_measured() -> str:
    """Fragmentation rates at half memory by both costs."""

    def cells(df: "pd.DataFrame", m: str) -> list[str]:
        found = [at(df, trace=m, policy=p, band_center=HALF) for p in POLICIES]
        return ["does not fit" if r.fits == 0 else f"{100 * r.fragmentation_rate:.1f}" for r in found]

    return table(["rate in % at half memory, request not counted", "DTR", "DTE", "Coop"], both(cells, "overhead"))


def smallest_measured() -> str:
    """Smallest safe budgets by both costs."""

    def cells(df: "pd.DataFrame", m: str) -> list[str]:
        safe = [at(df, trace=m, policy=p).safe for p in POLICIES]
        return [*(f"{100 * s:.2f}" for s in safe), *(f"{s / safe[2]:.2f}" for s in safe[:2])]

    head = ["smallest safe budget, % of peak", "DTR", "DTE", "Coop", "DTR ÷ Coop", "DTE ÷ Coop"]
    return table(head, both(cells, "feasibility"))


def ablation() -> str:
    """Coop without each part: overhead and fragmentation at half memory."""
    df = expected("ablation")
    names = ("coop", "coop:search=greedy,divisor=hole", "coop:placement=low", "coop:in_place=copy_outputs")
    head = ["Coop", "without its window", "without two ends", "without in-place"]
    overheads, rates = [], []
    for m in MODELS:
        found = [at(df, trace=m, policy=p, band_center=HALF) for p in names]
        overheads.append([m, *map(percent, found)])
        rates.append([m, *("does not fit" if r.fits == 0 else f"{100 * r.fragmentation_rate:.1f}" for r in found)])
    tables = (("overhead in % at 50%", overheads), ("fragmentation rate in % at 50%", rates))
    return "\n\n".join(table([name, *head], rows) for name, rows in tables)


def cases(name: str, column: str, words: Callable[[object], str]) -> str:
    """Overhead of each case, by model: DTR / DTE / Coop."""
    df = expected(name)
    df["base"] = df.policy.str.partition(":")[0]
    df["case"] = (df.policy.str.partition(":")[2] if column == "policy" else df[column]).map(words)
    names = list(dict.fromkeys(df.case))
    rows = []
    for m in MODELS:
        cells = []
        for c in names:
            found = [at(df, trace=m, base=p, case=c) for p in POLICIES]
            cells.append(" / ".join("-" if r.fits == 0 else _short(r) for r in found))
        rows.append([m, *cells])
    return table([f"overhead in % at {df.band_center.iloc[0]:.0%}, DTR / DTE / Coop", *names], rows)


def _short(row: "pd.Series") -> str:
    return f"{100 * (row.overhead - 1):.1f}" + (f" ({row.fits})" if row.fits < row.points else "")


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


def gap() -> str:
    """How far policies are from the optimum where it is known."""
    df = expected("gap")
    df = df[df.status == "optimal"]
    rows = []
    for policy in (*POLICIES, "thrift", "static-dtr", "lru"):
        cells = []
        for ratio in (0.8, 0.6):
            part = df[(df.policy == policy) & (df.memory_ratio == ratio)]
            fits = part[part.outcome == "ok"]
            excess = 100 * (fits.overhead - fits.lower_bound)
            cells.append(f"{excess.median():.1f} / {excess.max():.1f} ({len(fits)} of {len(part)})")
        rows.append([policy, *cells])
    return table(["points above the optimum, median / most (fits)", "80 % of the peak", "60 %"], rows)


def sections() -> dict[str, str]:
    """What stands between the marks of pages, by name."""
    return {
        "modelled overhead": overhead(),
        "modelled fragmentation": fragmentation(),
        "search": search(),
        "modelled smallest": smallest(),
        "overhead-70": overhead_measured(0.7),
        "overhead-50": overhead_measured(HALF),
        "fragmentation": fragmentation_measured(),
        "smallest": smallest_measured(),
        "ablation": ablation(),
        "cost-model": cases("cost-model", "cost_model", lambda v: case("cost_model", v)),
        "choices": cases("choices", "policy", lambda v: IN_WORDS.get(str(v), PLAIN)),
        "steps": cases("steps", "steps", lambda v: case("steps", v)),
        "gap": gap(),
        "stweaver": stweaver(),
    }


def write() -> None:
    """Write them into the pages."""
    for name, text in sections().items():
        write_section(name, text)


if __name__ == "__main__":
    arguments.none(__doc__)
    write()
