"""Two policies of a sweep's table, replay by replay: what one costs more than the other, and how surely."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coopsim.base.errors import unknown
from coopsim.base.text import html_table, said
from coopsim.base.types import CoopsimError, Outcome
from coopsim.study.grouping import grouping

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pandas import DataFrame
else:
    DataFrame = Any  # so that typing.get_type_hints works without importing pandas

_SAMPLES = 10_000
_FEW = 5  #: traces, below which an interval is too narrow to speak of others
_CHANCE = "seed"  #: replays that differ in it alone are repetitions
_KINDS = ("both", "only_first", "only_second", "neither")


@dataclass(frozen=True, repr=False)
class PolicyComparison:
    """What `compare` found. Overheads and differences are in points, of percent of the cost without recomputation.

    difference: of `first` from `second`, negative where the first costs less; low, high: its interval. overhead_first,
    overhead_second: over the same replays, those where both fit. both, only_first, only_second, neither: how many
    pairs of replays fit whom. unpaired: replays of one without a counterpart, which are left out. traces: a row per
    trace with the same figures. NaN where no budget fits both.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    confidence: float
    overhead_first: float
    overhead_second: float
    both: int
    only_first: int
    only_second: int
    neither: int
    unpaired: int
    traces: DataFrame = field(compare=False)

    def _rows(self) -> list[tuple[str, str]]:
        n, tried = len(self.traces), self.both + self.only_first + self.only_second + self.neither
        with_pairs = int(self.traces["both"].gt(0).sum())
        rows = [("both fit", f"{self.both} of {tried} replays, in {with_pairs} of {n} trace{'s' * (n > 1)}")]
        if self.both:
            interval = f"{self.confidence:.0%} interval {self.low:+.2f} to {self.high:+.2f}"
            few = f"; of {with_pairs} trace{'s' * (with_pairs > 1)}, it says little of others"
            alone = "" if with_pairs >= _FEW else few
            rows += [
                ("difference", f"{self.difference:+.2f} points of overhead ({interval}{alone})"),
                ("overhead", f"{self.overhead_first:.2f} % and {self.overhead_second:.2f} %, where both fit"),
            ]
        fits = (self.both + self.only_first, self.both + self.only_second)
        alone_fit = f"{self.first} {self.only_first}, {self.second} {self.only_second}; neither: {self.neither}"
        rows += [("fits", f"{self.first} {fits[0]}, {self.second} {fits[1]}"), ("fits alone", alone_fit)]
        left_out = f"{self.unpaired} replay{'s' * (self.unpaired > 1)} of one policy without a counterpart of the other"
        return rows + ([("left out", left_out)] if self.unpaired else [])

    def __str__(self) -> str:
        return "\n".join([f"{self.first} against {self.second}", *(f"  {a:<11} {b}" for a, b in self._rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(f"{self.first} against {self.second}", self._rows())


def compare(table: DataFrame, first: str, second: str, *, confidence: float = 0.95, seed: int = 0) -> PolicyComparison:
    """Compare two policies of a sweep's table by the overheads of replays that agree in all but the policy.

    The difference is taken at each budget where both fit, averaged over the neighbours of a band, over the budgets of a
    trace, and over traces, each of which counts alike. Budgets that fit one alone have no difference, and a mean over
    what fits flatters the policy that fits less, so the result also says how many fit whom.

    The interval is a percentile bootstrap. Traces are drawn with replacement, as they are what a result is to hold for,
    and in each, the neighbours of each band, between which results vary as by chance; nominal budgets are not drawn, as
    they were chosen. The same table and `seed` give the same interval. CoopsimError for a policy that is not in the
    table, or one under several settings that the other does not have.
    """
    import numpy as np
    import pandas as pd

    if not 0 < confidence < 1:
        raise CoopsimError(f"confidence: {confidence!r} is not between 0 and 1")
    pairs, unpaired = _pairs(table, first, second)
    rng = np.random.default_rng(seed)
    found, drawn = [], []
    for trace, rows in pairs.groupby("trace", sort=False, observed=True):
        both = rows[rows["kind"] == "both"]
        cells = [cell for _, cell in both.groupby([c for c in both.columns if c.startswith("at_")], dropna=False)]
        found.append(
            {"trace": trace}
            | {
                name: float(np.mean([cell[name].mean() for cell in cells])) if cells else float("nan")
                for name in ("difference", "overhead_first", "overhead_second")
            }
            | {kind: int((rows["kind"] == kind).sum()) for kind in _KINDS}
        )
        if cells:
            drawn.append(_resampled([cell["difference"].to_numpy() for cell in cells], rng))
    traces = pd.DataFrame(found)
    low, high = _interval(drawn, confidence, rng)
    of_all: dict[str, Any] = {
        name: float(traces[name].mean()) for name in ("difference", "overhead_first", "overhead_second")
    } | {kind: int(traces[kind].sum()) for kind in _KINDS}
    return PolicyComparison(
        first, second, low=low, high=high, confidence=confidence, unpaired=unpaired, traces=traces, **of_all
    )


def _pairs(df: DataFrame, first: str, second: str) -> tuple[DataFrame, int]:
    """A row per trace, setting and budget that both were replayed at: the kind, overheads and their difference; and how
    many replays are of one policy alone."""
    import numpy as np

    found = grouping(df)
    known = list(dict.fromkeys(found.table["policy"]))
    for name in (first, second):
        if name not in known:
            raise unknown("policy", name, known)
    if first == second:
        raise CoopsimError(f"{first} is compared with itself")
    one, other = (found.table[found.table["policy"] == name] for name in (first, second))
    shared = [c for c in found.varying if c != _CHANCE and set(one[c].dropna()) & set(other[c].dropna())]
    if _CHANCE in found.varying and set(one[_CHANCE]) == set(other[_CHANCE]):
        shared.append(_CHANCE)
    size = "budget_bytes" if "budget_bytes" in df.columns else "memory_ratio"
    key = ["trace", *shared, "band_center", size]
    for name, rows in ((first, one), (second, other)):
        for column in found.varying:
            if (
                column not in (*shared, _CHANCE)
                and rows.groupby(key, dropna=False)[column].nunique(dropna=False).max() > 1
            ):
                values = " and ".join(said(column, value) or "none" for value in rows[column].unique()[:2])
                raise CoopsimError(f"{name} is in the table with {values}; choose one: table[table.{column} == …]")
    columns = [*key, "outcome", "overhead"]
    pairs = one[columns].merge(other[columns], "outer", key, suffixes=("_first", "_second"), indicator="_of")
    alone = int((pairs["_of"] != "both").sum())
    pairs = pairs[pairs["_of"] == "both"].copy()
    if pairs.empty:
        raise CoopsimError(f"{first} and {second} have no trace and budget in common")
    fits = [(pairs[f"outcome_{which}"] == Outcome.OK).to_numpy() for which in ("first", "second")]
    pairs["kind"] = np.select([fits[0] & fits[1], fits[0], fits[1]], _KINDS[:3], _KINDS[3])
    for which in ("first", "second"):
        pairs[f"overhead_{which}"] = 100 * (pairs[f"overhead_{which}"].astype("float64") - 1)
    pairs["difference"] = pairs["overhead_first"] - pairs["overhead_second"]
    return pairs.rename(columns={c: f"at_{c}" for c in (*shared, "band_center")}), alone


def _resampled(cells: "list[NDArray[np.float64]]", rng: "np.random.Generator") -> "NDArray[np.float64]":
    """The mean of a trace, over and over, with the neighbours of each band drawn anew."""
    means: Any = [cell[rng.integers(len(cell), size=(_SAMPLES, len(cell)))].mean(axis=1) for cell in cells]
    total: NDArray[np.float64] = sum(means) / len(means)
    return total


def _interval(drawn: "list[NDArray[np.float64]]", confidence: float, rng: "np.random.Generator") -> tuple[float, float]:
    """Of the mean over traces, with the traces drawn anew each time."""
    import numpy as np

    if not drawn:
        return float("nan"), float("nan")
    traces = np.array(drawn)
    which = rng.integers(len(traces), size=(_SAMPLES, len(traces)))
    means = traces[which, rng.integers(_SAMPLES, size=which.shape)].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
