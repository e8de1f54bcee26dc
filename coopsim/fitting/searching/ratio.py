"""Search for the largest activation_memory_budget, here called ratio, with which a compiled script fits a card.

The setting is a fraction of what the partitioner would save, not of any peak, and the peak is not monotonic in it
(pytorch issue 197838): what is recomputed at once may take more memory than saving it. So values are tried by whole
runs of the script, from the largest down, and then between the first that fits and the one above it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from coopsim.base.types import CoopsimError
from coopsim.fitting.changes import Changes
from coopsim.fitting.searching.launching import changed
from coopsim.run import Report, Script, run
from coopsim.run.memory import SURELY_ENOUGH
from coopsim.run.search import SearchedRuns, edge

#: The values to try, in this order.
GRID = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0)
#: The search ends when two values differ by about this much.
WIDTH = 0.01


@dataclass
class Ratio:
    """The result of a search. `as_it_is`: the run with ratio 1 and unlimited memory. `tried`: by ratio, on the card."""

    as_it_is: Report
    tried: dict[float, Report] = field(default_factory=dict)

    @property
    def value(self) -> float | None:
        """The largest ratio tried that fits; None if none does."""
        return max((ratio for ratio, report in self.tried.items() if report.outcome == "ok"), default=None)

    @property
    def fails(self) -> float | None:
        """The smallest ratio tried above `value`, which does not fit; None if there is none."""
        value = self.value
        return min((ratio for ratio in (1.0, *self.tried) if value is not None and ratio > value), default=None)

    @property
    def time_ratio(self) -> float | None:
        """The predicted time of a step with `value`, divided by that with ratio 1; None if it is not known."""
        if self.value is None or not self.as_it_is.plugin["step_ns"]:
            return None
        return float(self.tried[self.value].plugin["step_ns"] / self.as_it_is.plugin["step_ns"])


def search(script: Script, runs: SearchedRuns[float]) -> Ratio:
    """Search for the largest ratio with which `script` fits its card; `runs` run it with ratios (run_with).

    Raises CoopsimError if the script compiles nothing, or has no backward pass.
    """
    first = run_with(replace(script, memory_bytes=SURELY_ENOUGH), 1.0)
    if not first.compiled_graphs:
        raise CoopsimError(f"--compile-budget: {script.title} compiles nothing; coopsim fit says what else to change")
    if not first.plugin["backwards"]:
        raise CoopsimError(f"--compile-budget: {script.title} has no backward pass, for which values would be saved")
    runs.say(1.0, first)
    if first.peak_device_bytes <= script.total_bytes:
        return Ratio(first, {1.0: first})
    largest(runs.trains)
    return Ratio(first, runs.tried)


def run_with(script: Script, ratio: float) -> Report:
    """Run a script with a ratio."""
    return run(changed(script, Changes(activation_memory_budget=ratio)))


def largest(fits: Callable[[float], bool]) -> float | None:
    """Return a ratio below 1 that fits: the first of GRID, refined by bisection towards the one above it.

    `fits` is called with each ratio that is tried. None if no value of GRID fits.
    """
    low = next((ratio for ratio in GRID if fits(ratio)), None)
    if low is None:
        return None
    above = (1.0, *GRID)[GRID.index(low)]

    def near(above: float, low: float) -> bool:
        return above - low <= 1.5 * WIDTH

    return edge(fits, above, low, lambda above, low, _: round((low + above) / 2, 2), near=near)[1]
