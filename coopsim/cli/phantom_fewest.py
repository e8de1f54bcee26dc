"""coopsim phantom run --fewest-ranks -- COMMAND: find the smallest number of cards on which a job fits."""

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from coopsim.base.progress import note
from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.cli.common import exclude

if TYPE_CHECKING:
    from coopsim.run import Report, Script
    from coopsim.run.ranks.fewest import Fewest


def run(args: argparse.Namespace, script: "Script") -> int:
    """Search, print the result, and return the exit code: 3 if it fits on no number of cards."""
    from coopsim.run import run as run_script
    from coopsim.run.ranks.fewest import search

    others = ("fit", "largest", "ranks", "snapshot", "trace")
    exclude(args, others, "--fewest-ranks runs rank 0 of many worlds; {} is for one that is known")
    script = replace(script, quiet=True)
    first = run_script(script)
    if not first.ranks:
        raise CoopsimError(f"--fewest-ranks: {script.title} starts no ranks; name a launcher (torchrun), or --world N")
    _say(first)

    def trains(size: int) -> "Report":
        try:
            report = run_script(replace(script, world_size=size))
        except CoopsimError as e:
            note(f"with {size} ranks: {e}")
            raise
        _say(report)
        return report

    found = search(trains, first)
    print(json.dumps(_json(script, found), indent=2) if args.json else text(script, found))
    return 3 if found.value is None else 0


def _say(report: "Report") -> None:
    taken = f"trains, {human(report.peak_device_bytes)} of the card" if report.outcome == "ok" else "out of memory"
    note(f"with {report.world_size} ranks: {taken}")


def text(script: "Script", found: "Fewest") -> str:
    """Return the result as text."""
    rows = [("GPU", f"{script.profile.title} with {human(script.total_bytes)}, imitated")]
    below = f", {found.fails} do not" if found.fails is not None else ""
    rows.append(("fewest ranks", f"{found.value} train{below}" if found.value else f"up to {found.fails} do not train"))
    if found.value is not None:
        report = found.tried[found.value]
        peaks = f"{human(report.peak_allocated_bytes)} allocated, {human(report.peak_reserved_bytes)} reserved"
        rows.append((f"with {found.value}", f"{peaks}, {human(report.peak_device_bytes)} of the card, at the peaks"))
    if found.fails is not None:
        failed = found.tried[found.fails].out_of_memory if found.fails in found.tried else None
        rows.append((f"with {found.fails}", failed.title if failed else found.refused[found.fails]))
        if failed:
            rows.append(("held by", failed.held))
            if found.value is None:
                rows.append(("of that", "more cards take what the script shares out: DDP nothing, FSDP no activations"))
    runs = len(found.tried) + len(found.refused)
    rows.append(("runs", f"{runs}; assumption: if it trains on some cards, it does on more"))
    return "\n".join(f"{name:<16}{value}" for name, value in rows)


def _json(script: "Script", found: "Fewest") -> dict[str, object]:
    reports = [found.tried[n].to_dict() if n in found.tried else None for n in (found.value, found.fails)]
    return {
        "command": list(script.command),
        "gpu": script.card,
        "memory_bytes": script.total_bytes,
        "fewest_ranks": found.value,
        "fails": found.fails,
        "refused": {str(n): why for n, why in found.refused.items()},
        "runs": [
            {"world_size": n, "outcome": report.outcome, "peak_device_bytes": report.peak_device_bytes}
            for n, report in found.tried.items()
        ],
        "trains_report": reports[0],
        "fails_report": reports[1],
    }
