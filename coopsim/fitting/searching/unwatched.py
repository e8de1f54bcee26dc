"""Judge by runs that nothing watches, where coopsim's library below autograd cannot be had (no C++ compiler).

The recorder is a dispatch mode there, with which autograd may take up to half as much memory again. What a run shows of
models and times comes from a run that is watched, in memory enough.
"""

from dataclasses import replace
from pathlib import Path

from coopsim.base.types import CoopsimError
from coopsim.fitting.searching.launching import run_itself
from coopsim.phantom import compilers
from coopsim.run import Report, Script
from coopsim.run.launch.start import Running

#: What of a report is of memory, and differs where a mode watches.
_FIGURES = (
    *("peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes", "peak_device_bytes", "outcome", "retries"),
    *("first_step_peak_reserved_bytes", "steady_peak_reserved_bytes", "steady_peak_allocated_bytes", "phases", "ooms"),
    *("evaluation_peaks", "out_of_memory", "watched_by_mode"),
)


def differs(watched: Report, unwatched: Report) -> str:
    """Return why an unwatched run does not do what the watched one does; "" if it does.

    Without a recorder, nothing is answered about data on the device, which are zeros.
    """
    if watched.needs_data or watched.loops_ended:
        return "its sizes depend on data, which only a watched run is told"
    if unwatched.steps != watched.steps:
        return f"unwatched it takes {unwatched.steps} of {watched.steps} steps"
    return ""


def merged(watched: Report, unwatched: Report) -> Report:
    """Return the watched run's report with the other's figures of memory."""
    return replace(watched, **{name: getattr(unwatched, name) for name in _FIGURES})


def bare(script: Script) -> Script:
    """Return the script, to be run without a recorder and without a plugin."""
    return replace(script, watched=False, plugin="", told="")


def judged(script: Script, watched: Report, requests: Path, running: Running) -> tuple[Report, str]:
    """Return the report with the figures of a run that nothing watches, as all trials are to be; and a line for users.

    If that run does not do what the watched one did, the report remains as it is, and so are trials to be; the line
    says why. `requests`: the file of the requests of the run that the report is of.
    """
    why = compilers.why_not()
    try:
        found = run_itself(bare(script), requests, running)
        but = differs(watched, found)
    except CoopsimError as e:
        but = f"unwatched it fails: {e}"
    if but:
        run_itself(script, requests, running)  # the file of requests is the watched run's again
        return watched, f"{why}: runs are watched by a dispatch mode, and may take more memory than on a card; {but}"
    said = f"{why}: what fits is judged by runs that nothing watches; times are of others, in memory enough"
    return merged(watched, found), said
