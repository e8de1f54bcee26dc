"""What `coopsim plot` calls: all figures of a schedule or of a sweep, as files."""

import re
from collections.abc import Iterable, Sequence
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


def plot_schedule(
    schedule: "Schedule",
    trace: "Trace",
    out: Path,
    formats: Iterable[str] = ("png",),
    *,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
) -> list[Path]:
    """Draw the schedule's memory map. Returns the files written.

    out: a folder (made if need be), where the map is named after trace, policy and budget; or a file, whose suffix
    then says the format. CoopsimError for an unsupported format, or a schedule that has no addresses or is of another
    trace.
    """
    return _write(
        memory_map.draw(schedule, trace, size=size, choice=choice), _targets(out, _name(schedule, trace), formats)
    )


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


def plot_comparison(
    schedules: "Sequence[Schedule]",
    trace: "Trace",
    out: Path,
    formats: Iterable[str] = ("png",),
    *,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
) -> list[Path]:
    """Draw the memory maps of several schedules of one trace below each other. Returns the files written, as above."""
    figure = memory_map.compare(schedules, trace, size=size, choice=choice)
    return _write(figure, _targets(out, f"memory-maps_{trace.label}", formats))


def plot_time(
    bars: "Sequence[time.Bar]",
    trace: "Trace",
    out: Path,
    formats: Iterable[str] = ("png",),
    *,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
) -> list[Path]:
    """Draw where the time of several schedules of one trace goes. Returns the files written, as above."""
    title = ", ".join(filter(None, (trace.label, output.of_trace(trace))))
    figure = time.draw(bars, title=title, size=size, choice=choice)
    return _write(figure, _targets(out, f"time_{trace.label}", formats))


def plot_sweep(
    df: "pd.DataFrame",
    out: Path,
    formats: Iterable[str] = ("png",),
    *,
    search_time: bool = False,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
) -> list[Path]:
    """Draw a sweep's table: overhead, fragmentation, search, and an overview; with `search_time` the wall time, too.

    Returns the files written. out: a folder (made if need be); or a file, which gets the overview, in the format of its
    suffix. CoopsimError for an unsupported format or a table that is no sweep's.
    """
    targets = _targets(out, "overview", formats)
    written = _write(lines.overview(df, size=size, choice=choice), targets)
    if Path(out).suffix.lower().removeprefix(".") in FORMATS:
        return written
    timed = search_time and "search_ns" in df.columns and (df["search_ns"].fillna(0) > 0).any()
    for what in lines.QUANTITIES:
        if what != "search_time" or timed:
            written += _write(lines.draw(df, what, size=size, choice=choice), _targets(out, what, formats))
    return written


def plot_map(
    df: "pd.DataFrame",
    out: Path,
    formats: Iterable[str] = ("png",),
    *,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
) -> list[Path]:
    """Draw a feasibility map. Returns the files written.

    out: a folder (made if need be); or a file, whose suffix then says the format. CoopsimError as in plot_sweep.
    """
    return _write(feasibility.draw(df, size=size, choice=choice), _targets(out, "feasibility", formats))


def plot_trace(
    trace: "Trace", out: Path, formats: Iterable[str] = ("png",), *, size: style.Size = "column"
) -> list[Path]:
    """Draw a trace's bytes by role over a step without eviction. Returns the files written, as above."""
    return _write(alive.draw(trace, size=size), _targets(out, f"bytes_{trace.label}", formats))


def _targets(out: Path, name: str, formats: Iterable[str]) -> list[Path]:
    """The files to write: `out` itself if it ends like a figure, else `name` in the folder `out`, once a format."""
    out = Path(out)
    if out.suffix.lower().removeprefix(".") in FORMATS and not out.is_dir():
        return [out]
    names = check_formats(formats)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise CoopsimError(f"{out}: cannot be made a folder for figures ({e.strerror})") from None
    return [out / f"{name}.{form}" for form in names]


def _write(figure: "Figure", targets: list[Path]) -> list[Path]:
    return [save(figure, path) for path in targets]
