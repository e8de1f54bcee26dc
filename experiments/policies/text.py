"""Tables of docs/policies.md, from the bands of compare.py."""

from collections.abc import Iterator

import pandas as pd

from experiments.common.pages import wrapped

#: The traces, by what they were used for.
GROUPS = {
    "the four tuned on": ("bert-large", "resnet-50", "swin-t", "unet"),
    "the other four reference models": ("inception-v3", "bilstm", "spos", "gpt3-2.7b"),
    "not tuned on before DenseNet-121 was looked at": ("resnet-152", "inception-v4", "densenet-121", "gpt-2", "moe"),
    "not tuned on before ConvNeXt was looked at": ("vit-b", "convnext-t", "efficientnet-b0", "t5-base"),
    "not tuned on before Whisper was looked at": ("regnet-y", "mobilevit-s", "whisper-small", "llama-1.1b"),
    "not tuned on before Thrift got preferred addresses": ("mobilenet-v2", "poolformer-s12", "clip-b32", "bart-base"),
    "not tuned on before VGG was looked at": ("vgg-16", "mixer-b16", "segformer-b0", "wav2vec2-base"),
    "not tuned on before these were changed": ("resnext-50", "shufflenet-v2", "albert-base", "deberta-base"),
    "recorded last, not tuned on": ("squeezenet", "edsr", "opt-350m", "xlm-r-base"),
}
DTR = ("dtr-oneflow", "dtr", "dtr-eq")  #: its published forms; the best of them counts
OURS = {"thrift": "Thrift", "foresight": "Foresight", "foresight-offline": "Foresight, offline"}
COMPARED = (*DTR, "dte-oneflow", "coop", *OURS)
NAMES = {"dtr-oneflow": "DTR", "dtr": "DTR, exact", "dtr-eq": "DTR, sets", "dte-oneflow": "DTE", "coop": "Coop"} | OURS
TARGET = 0.02  #: for the fragmentation rate, as written down before tuning
NOISE = 1e-9  #: of a sum of times
EIGHT, HELD_OUT = "the eight reference models", "recorded last, not tuned on"
ALL, BUT_MOE = "all", "all but `moe`, whose plan offline is hindsight"


def compared(table: pd.DataFrame, without_addresses: pd.DataFrame) -> str:
    """The section "policy sums" of docs/policies.md."""
    parts = [sums(table), details(table), left_free(without_addresses)]
    return wrapped("\n\n".join(parts))


def by_cell(table: pd.DataFrame) -> Iterator[tuple[str, float, pd.DataFrame]]:
    """Trace, memory ratio, and a row a policy, in the order of the table."""
    for (trace, ratio), group in table.groupby(["trace", "band_center"], sort=False):
        yield str(trace), float(str(ratio)), group.set_index("policy")


def best(cell: pd.DataFrame) -> "pd.Series | None":
    """The row of the least overhead among DTR, DTE and Coop. None unless each of them fits all budgets."""
    whole = cell[cell.fits == cell.points]
    forms = [p for p in DTR if p in whole.index]
    if not forms or not {"dte-oneflow", "coop"} <= set(whole.index):
        return None
    return whole.loc[whole.loc[[*forms, "dte-oneflow", "coop"]].overhead.idxmin()]


def groups(table: pd.DataFrame) -> pd.DataFrame:
    """Excess overhead added up by group of traces, in points, over the cells where the three and ours fit all."""
    named = {name: list(names) for name, names in GROUPS.items()}
    (tuned, other, *_) = named.values()
    named |= {
        EIGHT: tuned + other,
        ALL: [t for names in GROUPS.values() for t in names],
        BUT_MOE: [t for names in GROUPS.values() for t in names if t != "moe"],
    }
    return pd.DataFrame([_sum(name, table[table.trace.isin(traces)]) for name, traces in named.items()])


def sums(table: pd.DataFrame) -> str:
    """The sums of all, and of those that nothing was tuned on."""
    found = groups(table).set_index("group")
    head = ["networks", "cells", "best of DTR, DTE, Coop", *OURS.values()]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(_line(name, found.loc[name]) for name in (EIGHT, HELD_OUT, ALL, BUT_MOE))])


def details(table: pd.DataFrame) -> str:
    """Where ours are worse, where they fit less, how much they search, and how much is left free as they do."""
    head = ["policy", "cells in which it costs more", "cells in which fewer budgets fit", "blocks visited, of Coop's"]
    head.append(f"cells with a fragmentation rate above {100 * TARGET:g} %")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    rates = fragmentation(table)
    for p in OURS:
        visits = searching(table, p)
        cells = [*map(str, worse(table, p)), f"{visits.median():.2f} (at most {visits.max():.2f})"]
        lines.append(f"| {OURS[p]} | {' | '.join(cells)} | {_above_target(rates[p], of=f' of {len(rates)}')} |")
    return "\n".join([*lines, f"| Coop | - | - | 1 | {_above_target(rates.coop, of=f' of {len(rates)}')} |"])


def worse(table: pd.DataFrame, policy: str) -> tuple[int, int]:
    """Cells where it costs more than the best of the three, by more than the larger standard deviation of the two.

    And cells where it fits fewer budgets than the one of the three that fits most.
    """
    costs = fits = 0
    for _, _, cell in by_cell(table):
        mine, of_best = cell.loc[policy], best(cell)
        fits += int(mine.fits < cell.drop(list(OURS)).fits.max())
        if of_best is not None and mine.fits == mine.points:
            band = max(mine.overhead_spread, of_best.overhead_spread)
            costs += int(mine.overhead > of_best.overhead + band + NOISE)
    return costs, fits


def _all_fit(cell: pd.DataFrame) -> bool:
    """Whether ours fit all budgets."""
    return bool((cell.loc[list(OURS)].fits == cell.loc[list(OURS)].points).all())


def _sum(name: str, table: pd.DataFrame) -> dict[str, object]:
    """Over the cells where each of the three and ours fit all budgets."""
    total = dict.fromkeys(["best", *OURS], 0.0)
    count = 0
    for _, _, cell in by_cell(table):
        of_best, mine = best(cell), cell.loc[list(OURS)]
        if of_best is None or not _all_fit(cell):
            continue
        count += 1
        total["best"] += 100 * (of_best.overhead - 1)
        for p in OURS:
            total[p] += 100 * (mine.overhead[p] - 1)
    return {"group": name, "cells": count} | total


def _line(name: str, of: "pd.Series | dict[str, float]") -> str:
    of_ours = [f"{of[p]:.1f} ({100 * (of[p] / of['best'] - 1):+.1f} %)" for p in OURS]
    name = f"**{name}**" if name == ALL else name
    return f"| {name} | {of['cells']:.0f} | {of['best']:.1f} | {' | '.join(of_ours)} |"


def elsewhere(table: pd.DataFrame) -> str:
    """What ours save in other settings, over the cells where all fit all budgets."""
    of = _sum("all", table.assign(trace=table.setting + table.model))
    thrift, foresight = (f"{100 * (1 - of[p] / of['best']):.1f} %" for p in ("thrift", "foresight"))
    text = (
        f"In {table.setting.nunique()} other settings (GPUs, precision, batch sizes, cost models) of "
        f"{' and '.join(table.model.unique())}, {of['cells']} cells, Thrift costs {thrift} and Foresight {foresight} "
        "less than the best of the three."
    )
    return wrapped(text)


def searching(table: pd.DataFrame, policy: str) -> pd.Series:
    """Blocks visited, of Coop's, over the cells where both fit all budgets and Coop searches."""
    pairs = (cell.loc[["coop", policy]] for _, _, cell in by_cell(table))
    both = (pair for pair in pairs if (pair.fits == pair.points).all() and pair.search_visits["coop"] > 0)
    return pd.Series([pair.search_visits[policy] / pair.search_visits["coop"] for pair in both])


def fragmentation(table: pd.DataFrame) -> pd.DataFrame:
    """The rates of Coop and ours, a row per cell where they fit all budgets; none of a policy that never searches."""
    policies = ["coop", *OURS]
    fit = (cell for _, _, cell in by_cell(table) if (cell.fits[policies] == cell.points[policies]).all())
    return pd.DataFrame([cell.fragmentation_rate[policies] for cell in fit])


def _above_target(rates: pd.Series, of: str = "") -> str:
    if rates.isna().all():
        return f"none{of} (it never searches)"
    above = (rates > TARGET).sum()
    return f"{above}{of} (at most {100 * rates.max():.1f} %)" if above else f"none{of}"


def left_free(table: pd.DataFrame) -> str:
    """The same without addresses, where all free bytes can be used: what is left free as values are evicted whole."""
    parts = []
    for policy, rows in table.dropna().groupby("policy", sort=False):
        parts.append(f"{NAMES[str(policy)]} in {_above_target(rows.rate, of=f' of {len(rows)}')}")
    where = f"Where nothing has an address and any free byte serves, the rate is above {100 * TARGET:g} %"
    return f"{where}: {', '.join(parts)}."


def cells(table: pd.DataFrame) -> str:
    """A line a trace and ratio at which anything fits."""
    lines = [f"| overhead, % | at | {' | '.join(NAMES[p] for p in COMPARED)} |", "|---" * (2 + len(COMPARED)) + "|"]
    for trace, ratio, cell in by_cell(table):
        if cell.fits.any():
            lines.append(f"| {trace} | {ratio:g} | {' | '.join(cell_text(cell.loc[p]) for p in COMPARED)} |")
    return "\n".join(lines)


def cell_text(row: pd.Series) -> str:
    """Mean ± standard deviation, and how many budgets fit if not all do."""
    if row.fits == 0:
        return "-"
    some = "" if row.fits == row.points else f" ({row.fits:.0f} of {row.points:.0f})"
    return f"{100 * (row.overhead - 1):.1f} ± {100 * row.overhead_spread:.1f}{some}"
