"""The other bound of the verdict where sizes depend on data: what the script needs if masks keep nothing."""

from dataclasses import replace
from pathlib import Path

from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.fitting.changes import Changes
from coopsim.fitting.searching.launching import PLUGIN, run_itself
from coopsim.fitting.searching.trials import Trials
from coopsim.record.observe.masks import LOWER
from coopsim.run.memory import SURELY_ENOUGH

#: Kinds of bytes that no mask changes.
_WHATEVER = ("parameters", "gradients", "optimizer_state")


def lower_needs(trials: Trials, requests: Path) -> int | None:
    """Run the script with masks that keep nothing, and return the bytes of memory that it needs, context included.

    None: no size depends on a mask, the user has said what they keep, the script fails if they keep nothing, or it
    cannot fit then either, as parameters, gradients and the optimizer's state alone are too much; a note says which of
    the last two. `requests`: a file that the run writes its requests to. The caller has made the first run
    (Trials.survey).
    """
    report = trials.first
    assert report is not None
    if trials.script.masks or not report.depends_on_masks:
        return None
    least = report.context_bytes + sum(report.peak_by_kind.get(kind, 0) for kind in _WHATEVER)
    if least > trials.script.total_bytes:
        trials.notes.append(f"if masks keep nothing, it does not fit either: {human(least)} do not depend on them")
        return None
    script = replace(
        trials.script, memory_bytes=SURELY_ENOUGH, plugin=PLUGIN, told=Changes().message(), masks=LOWER, quiet=True
    )
    with trials.runs.one("as it is, if masks keep nothing") as ended:
        try:
            low = run_itself(script, requests, trials.running)
        except CoopsimError as e:
            ended(f"fails: {e}")
            trials.notes.append(f"if masks keep nothing, the script fails: {e}")
            return None
        needs = trials.needs(low, requests)
        ended(f"needs {human(needs)}")
    has = trials.script.total_bytes
    fits = "fits" if needs <= has else "does not fit either"
    trials.notes.append(f"if masks keep nothing, it needs {human(needs)}, and {fits}")
    return needs
