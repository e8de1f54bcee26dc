"""What Python users call beside `load`, `replay` and `validate`: docs/reference/python.md, from the docstrings."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import files
from coopsim.base.capture_options import CaptureOptions
from coopsim.base.errors import named, of_type, whole
from coopsim.base.option import takes
from coopsim.base.progress import note, watch
from coopsim.base.types import CoopsimError
from coopsim.simulate import metrics
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.policies import AnyPolicy
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    DataFrame = Any  # so that typing.get_type_hints works without importing pandas


@takes(CaptureOptions, "capture")
def capture(
    target: str | Callable[[], object], output: str | Path | None = None, *, gpu: str | None = None, **options: Any
) -> Trace:
    """Record one steady training step, without a GPU, and return its trace.

    target: a reference model (`"bert-large"`), or a function of yours that trains once, `"train.py:step"`, or the
    function itself: in a process with a phantom GPU (`coopsim.phantom_gpu`) it is recorded there, with all that lies on
    the card; elsewhere its file is imported in a process of its own, as by `"train.py:step"`, so it must be at the top
    of one. output: a trace file to keep. gpu: the card to record for (`coopsim list hardware`, or a card file; None:
    this process's phantom GPU for a function, or else a100-80gb). name: the trace's label. The rest is as of `coopsim
    capture` (docs/capture.md). CoopsimError if it cannot be recorded.
    """
    from coopsim.record.capture.job import Job
    from coopsim.record.capture.parent import capture as record
    from coopsim.record.capture.parent import capture_function

    if not callable(target):
        named("target", target)
    with tempfile.TemporaryDirectory() as folder:
        file = files.target(output or Path(folder) / "trace.parquet")
        name = target if isinstance(target, str) else ""
        job = Job(name, file, card="a100-80gb" if gpu is None else gpu, **options)
        if isinstance(target, str):
            record(job, _caution)
        else:
            capture_function(target, job, gpu, _caution)
        return load(file)


def _caution(text: str) -> None:
    """Of a capture's progress, show what one must know of the trace."""
    if text.startswith("caution"):
        note(text)


def sweep(
    traces: "Trace | str | Sequence[Trace | str]",
    policies: AnyPolicy | Sequence[AnyPolicy],
    budgets: str | Sequence[str],
    *,
    allocators: "str | Allocator | Sequence[str | Allocator]" = "arena",
    band: int = 1,
    band_width: float = 0.05,
    jobs: int = 1,
    output: str | Path | None = None,
    steps: int | Sequence[int] | None = None,
    cost_model: str | Sequence[str] | None = None,
    random: str | Sequence[str] | None = None,
    overhead_limit: float | Sequence[float] | None = None,
    seed: int | Sequence[int] | None = None,
    link: str | Sequence[str] | None = None,
    host_memory: int | str | Sequence[int | str] | None = None,
    host_bandwidth: float | Sequence[float] | None = None,
    torch: str | Sequence[str] | None = None,
    alloc_conf: str | Sequence[str] | None = None,
) -> DataFrame:
    """Replay traces under policies and budgets: a row per replay, with the keys of `summary`, as a pandas DataFrame.

    traces: traces, or names that `load` knows. policies: as of `replay`;
    `"./mine.py:Gds:alpha=0.5|1"` is one for each value. budgets: as on the command line,
    `["90%", "50%", "6GiB"]` or `"100%:30%:10%"`. band: neighbouring budgets for each, over `band_width` of the peak.
    jobs: processes (1: this one); in a script, more than one need the guard `if __name__ == "__main__":`. output: a
    table to write (Parquet); an interrupted sweep resumes from it. All others are of `replay`, and torch and alloc_conf
    of the allocator cuda-caching; each a value or a list of values, None for the default. CoopsimError for invalid
    arguments, before anything runs.
    """
    from coopsim.base import budget
    from coopsim.study.sweep.grid import Grid
    from coopsim.study.sweep.options import given, some
    from coopsim.study.sweep.sweep import sweep as run
    from coopsim.study.sweep.workers import Processes

    whole("band", band, 1, "how many neighbouring budgets")
    whole("jobs", jobs, 1, "how many processes")
    of_type("band_width", band_width, float, "a part of the peak, such as 0.05")
    grid = Grid(
        some("traces", traces),
        some("policies", policies),
        allocators=some("allocators", allocators),
        budgets=[one for text in some("budgets", budgets) for one in budget.parse_list(text)],
        band=band,
        band_width=band_width,
        options=given(locals()),
    )
    with tempfile.TemporaryDirectory() as folder, watch("replays", lines=False) as report:
        where = Processes(jobs) if jobs > 1 else None
        table: DataFrame = run(grid, files.target(output or Path(folder) / "sweep"), where, report)
    return table


def summary(schedule: Schedule, trace: Trace | None = None) -> dict[str, Any]:
    """The figures of a replay: a mapping with the keys of `coopsim replay --json` (docs/reference/files.md).

    overhead is the total cost ÷ the cost of the same steps without recomputation; None unless the outcome is `ok`.
    trace: what was replayed; needed for files of schedules that do not hold its peak, of coopsim before 0.2.
    """
    of_type("schedule", schedule, Schedule, "coopsim.replay gives one")
    if trace is not None:
        of_type("trace", trace, Trace, "coopsim.load gives one")
        peak = peak_bytes(trace, schedule.header["granule"])
    elif (peak := schedule.header.get("peak_without_eviction_bytes", 0)) == 0:
        raise CoopsimError("this schedule does not hold its trace's peak: summary(schedule, trace)")
    return metrics.with_peak(metrics.summary(schedule), peak)
