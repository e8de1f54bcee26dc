"""Run a script with changes, in a copy with other texts, or as it is."""

import json
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from coopsim.base.option import declared
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.copies import copied
from coopsim.fitting.figures import goes_by_plan
from coopsim.fitting.saved import versions
from coopsim.live import plan_file
from coopsim.live.host import Hosting
from coopsim.run import Report, Script, run
from coopsim.run.launch.start import Running

PLUGIN = "coopsim.fitting.inside"
LIVE = "coopsim.live.guest"
_STARTS = 3  #: runs of a script in a budget, until its steps go by plan


def changed(script: Script, changes: Changes) -> Script:
    """Return a Script of the same command which, when it is run, makes the changes; nothing runs here.

    A plugin makes them, code in the script's process (fitting.inside, or live's); variables and number of ranks are
    set.
    """
    plugin, told = PLUGIN, changes.message()
    if changes.live:
        hosting = asdict(Hosting()) if changes.offload else None
        plugin, told = LIVE, json.dumps({"memory": changes.live, "hosting": hosting})
    return replace(
        script,
        variables=changes.variables,
        world_size=changes.cards or script.world_size,
        plugin=plugin,
        told=told,
        explains=not changes.live,  # it goes on after memory has run out, and each explanation takes a second
    )


def run_changed(script: Script, texts: Mapping[str, str] | None, running: Running | None = None) -> Report:
    """Run a script as coopsim.run.run does, and return the report; `running`: as there.

    texts: run a copy of it, in which files have these texts, by path (editing.copies.copied); None: itself.
    """
    if texts is None:
        return _in_budget(script, running) if script.plugin == LIVE else run(script, running=running)
    with copied(script.command, texts) as command:
        return run(replace(script, command=command), running=running)


def run_itself(script: Script, requests: Path | None, running: Running) -> Report:
    """Run a script itself, and return the report. If it fails for no known reason, the error names what shows why."""
    try:
        return run(script, requests=None if script.is_long else requests, running=running)
    except CoopsimError as e:
        if "ended with exit code" in str(e):
            raise CoopsimError(f"{e}; coopsim phantom run -- {shlex.join(script.command)} shows why") from None
        raise


def _in_budget(script: Script, running: Running | None) -> Report:
    """Run a script under `live`, up to three times, until most steps go by plans that stay; its peak is of all runs.

    Each run goes on with the plans of the one before, as starts of `live run` do. So a plan that a step has exceeded is
    replanned and tried, also where the script takes few steps. Plans by which most steps go are kept for `live run`.
    """
    told = json.loads(script.told)
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        kept = Path(folder, "kept.plan")
        told |= {"plan": str(kept), "own": True}
        report = run(replace(script, told=json.dumps(told)), running=running)
        peak = report.peak_device_bytes
        for _ in range(_STARTS - 1):
            settled = goes_by_plan(report) and not report.plugin["replans"]
            if report.outcome != "ok" or report.plugin["failed"] or settled or not kept.exists():
                break
            report = run(replace(script, told=json.dumps(told)), running=running)
            peak = max(peak, report.peak_device_bytes)
        if report.outcome == "ok" and not report.plugin["failed"] and goes_by_plan(report) and kept.exists():
            _hand_over(script, kept)
    return replace(report, peak_device_bytes=peak)


def _hand_over(script: Script, kept: Path) -> None:
    """Let `live run`, with the flags that `fit` prints, begin with these plans: on the card, and on the phantom GPU."""
    told = json.loads(script.told)
    options = {name: one.default for name, (one, _) in declared(RunOptions, "live").items()}
    hosting = Hosting(**told["hosting"]) if told["hosting"] else None
    plans = plan_file.load(kept)
    card = plan_file.card(plans.card.rpartition(", ")[0], script.profile.memory_bytes)  # all of it
    plans = replace(plans, card=card)
    for gpu in (None, script.card):
        start = plan_file.Start(told["memory"], gpu=gpu, hosting=hosting, offload=True if hosting else None)
        plan_file.save(plans, plan_file.place(start, script.command, options, versions()))
