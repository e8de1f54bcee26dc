"""coopsim phantom run --fewest-ranks -- COMMAND: find the smallest number of cards on which a job fits."""

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from coopsim.base.text import listed
from coopsim.base.types import CoopsimError
from coopsim.cli import phantom_search as search

if TYPE_CHECKING:
    from coopsim.run import Script
    from coopsim.run.ranks.fewest import Fewest


def run(args: argparse.Namespace, script: "Script") -> int:
    """Search, print the result, and return the exit code: 3 if it fits on no number of cards."""
    from coopsim.run import run as run_script
    from coopsim.run.ranks import fewest
    from coopsim.run.ranks.fewest import Fewest
    from coopsim.run.search import SearchedRuns

    script = replace(script, quiet=True)
    first = run_script(script)
    if not first.ranks:
        raise CoopsimError(f"--fewest-ranks: {script.title} starts no ranks; name a launcher (torchrun), or --world N")
    search.say(f"{first.world_size} ranks", first)
    runs = SearchedRuns[int](
        lambda size: run_script(replace(script, world_size=size)), lambda size, said: search.say(f"{size} ranks", said)
    )
    with runs.told_if_interrupted(lambda: _so_far(Fewest(runs.tried, runs.refused))):
        found = fewest.search(runs, first)
    print(json.dumps(_json(script, found), indent=2) if args.json else text(script, found))
    return 3 if found.value is None else 0


def _so_far(found: "Fewest") -> str:
    known = [f"{found.value} ranks train"] if found.value is not None else []
    known += [f"{found.fails} do not"] if found.fails is not None else []
    return ", ".join(known)


def text(script: "Script", found: "Fewest") -> str:
    """Return the result as text."""
    rows = [search.gpu(script)]
    below = f", {found.fails} do not" if found.fails is not None else ""
    rows.append(("fewest ranks", f"{found.value} train{below}" if found.value else f"up to {found.fails} do not train"))
    if found.value is not None:
        rows.append(search.at_peaks(found.value, found.tried[found.value]))
    if found.fails is not None:
        failed = found.tried[found.fails].out_of_memory if found.fails in found.tried else None
        rows.append((f"with {found.fails}", failed.title if failed else found.refused[found.fails]))
        if failed:
            rows.append(("held by", failed.held))
            if found.value is None:
                rows.append(("of that", "more cards take what the script shares out: DDP nothing, FSDP no activations"))
    runs = len(found.tried) + len(found.refused)
    rows.append(("runs", f"{runs}; assumption: if it trains on some cards, it does on more"))
    return listed(rows, 16)


def _json(script: "Script", found: "Fewest") -> dict[str, object]:
    said = {
        "fewest_ranks": found.value,
        "fails": found.fails,
        "refused": {str(n): why for n, why in found.refused.items()},
    }
    reports = {"trains_report": found.tried.get(found.value or 0), "fails_report": found.tried.get(found.fails or 0)}
    return search.to_json(script, said, "world_size", found.tried, **reports)
