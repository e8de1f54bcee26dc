"""What Python users call beside `load`, `replay` and `validate`: docs/api.md, from the docstrings."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim import metrics
from coopsim.allocators import Allocator
from coopsim.errors import named, of_type
from coopsim.progress import note
from coopsim.schedule import Schedule
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.types import CoopsimError, Precision

if TYPE_CHECKING:
    import pandas as pd

    from coopsim.capture.job import Where
    from coopsim.capture.models import Amp, Attention, Gradients, Optimizer
    from coopsim.phantom.workspaces import Choice


def capture(
    target: str | Callable[[], object],
    output: str | Path | None = None,
    *,
    gpu: str | None = None,
    steps: int = 1,
    warmup: int = 2,
    batch: int | None = None,
    optimizer: "Optimizer | None" = None,
    amp: "Amp | None" = None,
    attention: "Attention | None" = None,
    gradients: "Gradients | None" = None,
    precision: Precision | None = None,
    device: "Where" = "phantom",
    cost_from: str | Path = "",
    temporaries_from: str | Path = "",
    passes: int = 5,
    masks: str = "",
    workspaces: "Choice" = "",
    limit: bool = False,
    name: str = "",
) -> Trace:
    """Record one steady training step, without a GPU, and return its trace.

    target: a reference model (`"bert-large"`), or a function of yours that trains once, `"train.py:step"`, or the
    function itself: in a process with a phantom GPU (`coopsim.phantom_gpu`) it is recorded there, with all that lies on
    the card; elsewhere its file is imported in a process of its own, as by `"train.py:step"`, so it must be at the top
    of one. output: a trace file to keep. gpu: the card to record for (`coopsim list hardware`, or a card file; None:
    this process's phantom GPU for a function, or else a100-80gb). name: the trace's label. The rest is as of `coopsim
    capture` (docs/capture.md). CoopsimError if it cannot be recorded.
    """
    from coopsim.capture.function import capture as record_function
    from coopsim.capture.job import Job
    from coopsim.capture.parent import capture as record

    if not callable(target):
        named("target", target)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(output or Path(folder) / "trace.parquet")
        job = Job(
            target if isinstance(target, str) else "",
            file,
            card="a100-80gb" if gpu is None else gpu,
            precision=precision,
            batch=batch,
            steps=steps,
            warmup=warmup,
            optimizer=optimizer,
            amp=amp,
            attention=attention,
            gradients=gradients,
            device=device,
            cost_from=cost_from,
            passes=passes,
            temporaries_from=temporaries_from,
            masks=masks,
            workspaces=workspaces,
            limit=limit,
            name=name,
        )
        if isinstance(target, str):
            record(job, _caution)
        else:
            record_function(target, job, gpu, _caution)
        return load(file)


def _caution(text: str) -> None:
    """Of a capture's progress, show what one must know of the trace."""
    if text.startswith("caution"):
        note(text)


def sweep(
    traces: "Trace | str | Sequence[Trace | str]",
    policies: str | Sequence[str],
    budgets: str | Sequence[str],
    *,
    allocators: "str | Allocator | Sequence[str | Allocator]" = "arena",
    band: int = 1,
    band_width: float = 0.05,
    jobs: int = 1,
    output: str | Path | None = None,
    **options: Any,
) -> "pd.DataFrame":
    """Replay traces under policies and budgets: a row per replay, with the keys of `summary`, as a pandas DataFrame.

    traces: traces, or names that `load` knows. policies: names, as of `replay`. budgets: as on the command line,
    `["90%", "50%", "6GiB"]` or `"100%:30%:10%"`. band: neighbouring budgets for each, over `band_width` of the peak.
    jobs: processes (1: this one); in a script, more than one need the guard `if __name__ == "__main__":`. output: a
    table to write (Parquet); an interrupted sweep resumes from it. options: steps, cost_model, random,
    overhead_limit (as of `replay`), torch, alloc_conf; each a value or a list of values. CoopsimError for
    invalid arguments, before anything runs.
    """
    from coopsim import budget
    from coopsim.sweep.grid import Grid
    from coopsim.sweep.sweep import sweep as run
    from coopsim.sweep.workers import Processes

    for policy in _several(policies):
        if not isinstance(policy, str):
            raise CoopsimError(
                "a sweep names its policies, as its table does: those of a file of yours are FILE.py:NAME"
            )
    of_type("band", band, int, "how many neighbouring budgets")
    of_type("jobs", jobs, int, "how many processes")
    of_type("band_width", band_width, float, "a part of the peak, such as 0.05")
    grid = Grid(
        _several(traces),
        _several(policies),
        allocators=_several(allocators),
        budgets=[one for text in _several(budgets) for one in budget.parse_list(text)],
        band=band,
        band_width=band_width,
        options=options,
    )
    with tempfile.TemporaryDirectory() as folder:
        table: pd.DataFrame = run(grid, output or Path(folder) / "sweep", Processes(jobs) if jobs > 1 else None)
    return table


def summary(schedule: Schedule, trace: Trace) -> dict[str, Any]:
    """The figures of a replay: a mapping with the keys of `coopsim replay --json` (docs/formats.md).

    overhead is the total cost ÷ the cost of the same steps without recomputation; None unless the outcome is `ok`.
    """
    of_type("schedule", schedule, Schedule, "coopsim.replay gives one")
    of_type("trace", trace, Trace, "coopsim.load gives one")
    return metrics.with_peak(metrics.summary(schedule), peak_bytes(trace, schedule.header["granule"]))


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
