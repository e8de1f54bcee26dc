"""coopsim phantom run --largest LOW:HIGH -- COMMAND with {}: find the largest number with which a script trains."""

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from coopsim.base.progress import note
from coopsim.base.text import listed
from coopsim.base.types import CoopsimError
from coopsim.cli import phantom_search as search
from coopsim.run import memory

if TYPE_CHECKING:
    from coopsim.run import Report, Script
    from coopsim.run.largest import Largest


_TOLERANCE = 0.01  #: relative tolerance of the number found
_TIMES = 3  #: how often the range may be widened, to four times its end or a quarter


def run(args: argparse.Namespace, script: "Script") -> int:
    """Search, print the result, and return the exit code: 3 if the lowest number does not train."""
    from coopsim.run import largest
    from coopsim.run.largest import Largest
    from coopsim.run.search import SearchedRuns

    if not any("{}" in word for word in script.command):
        raise CoopsimError("--largest: put {} where the number goes, as in: -- python train.py --batch-size {}")
    script = replace(script, quiet=True)
    low, high = args.largest
    note(f"looking from {low} to {high}; assumption: if a number trains, smaller ones do, too")
    runs = SearchedRuns[int](lambda n: _run(script, n), lambda n, said: search.say(str(n), said))
    with runs.told_if_interrupted(lambda: _so_far(Largest(low, high, runs.tried))):
        found = largest.search(runs, low, high, tolerance=_TOLERANCE, times=_TIMES, widened=_say_widened)
    print(json.dumps(_json(script, found), indent=2) if args.json else _text(script, found))
    return 3 if found.value is None else 0


def _say_widened(low: int, high: int) -> None:
    note(f"the answer is not in that range; looking from {low} to {high}")


def _run(script: "Script", n: int) -> "Report":
    from coopsim.run import run as run_script

    words = tuple(word.replace("{}", str(n)) for word in script.command)
    try:
        return run_script(replace(script, command=words))
    except CoopsimError as e:
        e.args = (f"with {n}: {e}",)
        raise


def _so_far(found: "Largest") -> str:
    known = [f"{found.value} trains"] if found.value is not None else []
    known += [f"{found.fails} does not"] if found.fails is not None else []
    return ", ".join(known)


def _text(script: "Script", found: "Largest") -> str:
    rows = [search.gpu(script)]
    if found.value is None:
        rows.append(("largest", f"none from {found.low} on: {found.low} does not train"))
    elif found.fails is None:
        rows.append(("largest", f"{found.value} trains, where the search ended: it may be larger"))
    else:
        between = found.fails - found.value > 1
        more = "; between them nothing was tried" if between else ""
        rows.append(("largest", f"{found.value} trains, {found.fails} does not{more}"))
    if found.refused:
        rows.append(("ended", found.refused))
    if found.value is not None:
        rows.append(search.at_peaks(found.value, found.tried[found.value]))
    near = sorted(n for n, report in found.tried.items() if report.too_close_to_call)
    if near:
        sure = max((n for n, r in found.tried.items() if r.outcome == "ok" and n not in near), default=None)
        certain = f"; {sure} trains with that to spare" if sure is not None else ""
        within = f"{memory.TOO_CLOSE:.0%} of the card, by which a real one differs{certain}"
        rows.append(("too close", f"to call: {', '.join(map(str, near))} within {within}"))
    if found.fails is not None and (failed := found.tried[found.fails].out_of_memory):
        rows.append((f"with {found.fails}", failed.title))
    if found.value is not None and found.tried[found.value].depends_on_masks:
        rows.append(("masks", f"keep {found.tried[found.value].kept_by_masks}"))
    rows.append(("runs", f"{len(found.tried)}; assumption: if a number trains, smaller ones do, too"))
    return listed(rows, 16)


def _json(script: "Script", found: "Largest") -> dict[str, object]:
    said = {
        "low": found.low,
        "high": found.high,
        "largest": found.value,
        "fails": found.fails,
        "refused": found.refused or None,
        "too_close_to_call": sorted(n for n, report in found.tried.items() if report.too_close_to_call),
    }
    reports = {"trains_report": found.tried.get(found.value or 0), "fails_report": found.tried.get(found.fails or 0)}
    return search.to_json(script, said, "number", found.tried, **reports)
