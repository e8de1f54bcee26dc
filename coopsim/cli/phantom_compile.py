"""coopsim phantom run --compile-budget 8GiB -- COMMAND: find how much a compiled script may save for backward."""

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from coopsim.base.progress import note
from coopsim.base.text import human, listed
from coopsim.cli import phantom_search as search

if TYPE_CHECKING:
    from coopsim.fitting.searching.ratio import Ratio
    from coopsim.run import Report, Script


def run(args: argparse.Namespace, script: "Script") -> int:
    """Search, print the result, and return the exit code: 3 if no ratio that is tried fits."""
    from coopsim.fitting.searching import ratio
    from coopsim.run.search import SearchedRuns

    note("looking for the largest activation_memory_budget; its peak is not monotonic, so ratios are tried one by one")
    script = replace(script, quiet=True)
    runs = SearchedRuns[float](lambda r: ratio.run_with(script, r), _say)
    with runs.told_if_interrupted(lambda: ", ".join(f"{r:g} fits" for r in runs.tried if runs.trains(r))):
        found = ratio.search(script, runs)
    print(json.dumps(_json(script, found), indent=2) if args.json else _text(script, found))
    return 3 if found.value is None else 0


def _say(r: float, report: "Report | str") -> None:
    assert not isinstance(report, str)
    note(f"with {r:g}: {f'takes {human(report.peak_device_bytes)}' if report.outcome == 'ok' else 'out of memory'}")


def _text(script: "Script", found: "Ratio") -> str:
    from coopsim.fitting.remedies.compiled import lines

    rows = [search.gpu(script), ("with ratio 1", f"{human(found.as_it_is.peak_device_bytes)} of the card")]
    if found.value is None:
        rows.append(("ratio", f"none of those tried fits: {', '.join(f'{r:g}' for r in sorted(found.tried))}"))
    else:
        report = found.tried[found.value]
        above = f"; {found.fails:g} does not fit" if found.fails is not None else ""
        rows += [
            ("ratio", f"{found.value:g} fits{above}"),
            ("peak", f"{human(report.peak_device_bytes)} of the card; {search.peaks(report)}"),
        ]
        if found.time_ratio is not None:
            rows.append(("time", f"{found.time_ratio - 1:+.1%} per step against ratio 1, predicted by prices of ops"))
        rows += [("" if i else "to paste", line) for i, line in enumerate(lines(found.value))]
    rows.append(("runs", f"{len(found.tried.keys() | {1.0})}; the peak is not monotonic in the ratio"))
    text = listed(rows, 16)
    own = found.as_it_is.plugin["own_memory_budgets"]
    if own:
        text += f"\ncaution: the script itself sets it to {', '.join(f'{ratio:g}' for ratio in own)}: change that line"
    return text


def _json(script: "Script", found: "Ratio") -> dict[str, object]:
    from coopsim.fitting.remedies.compiled import lines

    report = found.tried[found.value] if found.value is not None else None
    said = {
        "activation_memory_budget": found.value,
        "fails": found.fails,
        "peak_device_bytes": report and report.peak_device_bytes,
        "time_ratio": found.time_ratio,
        "lines": lines(found.value) if found.value is not None else [],
        "own_memory_budgets": found.as_it_is.plugin["own_memory_budgets"],
    }
    tried = {1.0: found.as_it_is} | found.tried
    return search.to_json(script, said, "activation_memory_budget", tried, report=report)
