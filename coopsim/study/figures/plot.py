"""What `coopsim plot` writes: all figures of a schedule, a sweep, a map or a trace, as files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coopsim.base.types import CoopsimError
from coopsim.study.figures import alive, feasibility, lines, memory_map, output, style, time
from coopsim.study.figures.choice import ALL, PolicyChoice
from coopsim.study.figures.output import FORMATS, check_formats, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from coopsim.trace import Trace
    from coopsim.trace.schedule import Schedule


@dataclass(frozen=True)
class FigureFiles:
    """Where figures go, and how they look. Each method draws, and returns the files written.

    out: a folder (made if need be), in which files are named after what they show, one for each of the `formats`; or a
    file, whose suffix then says the format. CoopsimError for an unsupported format, or for what has no such figure.
    """

    out: Path
    formats: Sequence[str] = ("png",)
    size: style.Size = "column"
    choice: PolicyChoice = ALL

    def schedule(self, schedule: "Schedule", trace: "Trace") -> list[Path]:
        """The schedule's memory map, named after trace, policy and budget."""
        figure = memory_map.draw(schedule, trace, size=self.size, choice=self.choice)
        return self._write(figure, _name(schedule, trace))

    def comparison(self, schedules: "Sequence[Schedule]", trace: "Trace") -> list[Path]:
        """The memory maps of several schedules of one trace below each other."""
        figure = memory_map.compare(schedules, trace, size=self.size, choice=self.choice)
        return self._write(figure, f"memory-maps_{trace.label}")

    def time(self, bars: "Sequence[time.Bar]", trace: "Trace") -> list[Path]:
        """Where the time of several schedules of one trace goes."""
        title = ", ".join(filter(None, (trace.label, output.of_trace(trace))))
        return self._write(time.draw(bars, title=title, size=self.size, choice=self.choice), f"time_{trace.label}")

    def sweep(self, df: "pd.DataFrame", *, search_time: bool = False) -> list[Path]:
        """A sweep's overhead, fragmentation, search, and an overview, which is all that a file gets.

        With `search_time` the wall time, too.
        """
        self._targets("overview")  # so that what cannot be written is refused before the work
        written = self._write(lines.overview(df, size=self.size, choice=self.choice), "overview")
        if self.out.suffix.lower().removeprefix(".") in FORMATS:
            return written
        timed = search_time and "search_ns" in df.columns and (df["search_ns"].fillna(0) > 0).any()
        for what in lines.QUANTITIES:
            if what != "search_time" or timed:
                written += self._write(lines.draw(df, what, size=self.size, choice=self.choice), what)
        return written

    def map(self, df: "pd.DataFrame") -> list[Path]:
        """A feasibility map."""
        return self._write(feasibility.draw(df, size=self.size, choice=self.choice), "feasibility")

    def trace(self, trace: "Trace") -> list[Path]:
        """A trace's bytes by role over a step without eviction."""
        return self._write(alive.draw(trace, size=self.size), f"bytes_{trace.label}")

    def _write(self, figure: "Figure", name: str) -> list[Path]:
        return [save(figure, path) for path in self._targets(name)]

    def _targets(self, name: str) -> list[Path]:
        """The files to write: `out` itself if it ends like a figure, else `name` in the folder, once per format."""
        if self.out.suffix.lower().removeprefix(".") in FORMATS and not self.out.is_dir():
            return [self.out]
        names = check_formats(self.formats)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise CoopsimError(f"{self.out}: cannot be made a folder for figures ({e.strerror})") from None
        return [self.out / f"{name}.{form}" for form in names]


def _name(schedule: "Schedule", trace: "Trace") -> str:
    """Trace, policy and budget, in percent of the peak if it is a round one; the allocator if it is no arena."""
    from coopsim.trace.measure import peak_bytes

    h = schedule.header
    granule = int(h.get("granule", 1))
    peak = peak_bytes(trace, granule)
    percent = round(100 * h["budget_bytes"] / peak, 2)
    is_round = abs(percent / 100 * peak - h["budget_bytes"]) <= granule
    words = ["memory-map", trace.label, h["policy"], *([] if h["allocator"] == "arena" else [h["allocator"]])]
    return re.sub(r"[^\w.-]+", "-", "_".join([*words, f"{percent:g}pct" if is_round else f"{h['budget_bytes']}B"]))
