"""coopsim.map: the smallest safe budgets, from Python."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base import files
from coopsim.base.errors import of_type, whole
from coopsim.base.progress import watch
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.policies import AnyPolicy
from coopsim.study.sweep.feasibility_map import Scan, feasibility_map
from coopsim.study.sweep.grid import Grid
from coopsim.study.sweep.options import given, some
from coopsim.study.sweep.workers import Processes
from coopsim.trace import Trace

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    DataFrame = Any  # so that typing.get_type_hints works without importing pandas


def map(  # noqa: A001  (coopsim.map)
    traces: Trace | str | Sequence[Trace | str],
    policies: AnyPolicy | Sequence[AnyPolicy],
    *,
    largest: str = "100%",
    smallest: str = "10%",
    step: str = "0.5%",
    fine: str = "",
    allocators: str | Allocator | Sequence[str | Allocator] = "arena",
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
    """Replay every budget of a fine grid: a row per replay, as a pandas DataFrame, of which `coopsim.plot` makes a map.

    largest, smallest, step: the budgets, in percent of the peak without eviction. fine: the distance of further budgets
    where the outcome changes (default: a tenth of the step). All else is as of `sweep`; the columns are a sweep's, with
    `refined` for the further budgets. A budget that was not tried may end otherwise than its neighbours. CoopsimError
    for invalid arguments, before anything runs.
    """
    whole("jobs", jobs, 1, "how many processes")
    for name, text in (("largest", largest), ("smallest", smallest), ("step", step), ("fine", fine)):
        of_type(name, text, str, 'a percentage such as "0.5%"')
    options = given(
        steps=steps,
        cost_model=cost_model,
        random=random,
        overhead_limit=overhead_limit,
        seed=seed,
        link=link,
        host_memory=host_memory,
        host_bandwidth=host_bandwidth,
        torch=torch,
        alloc_conf=alloc_conf,
    )
    grid = Grid(
        some("traces", traces), some("policies", policies), allocators=some("allocators", allocators), options=options
    )
    scan = Scan(largest, smallest, step, fine)
    with tempfile.TemporaryDirectory() as folder, watch("replays", lines=False) as report:
        where = Processes(jobs) if jobs > 1 else None
        table: DataFrame = feasibility_map(grid, scan, files.target(output or Path(folder) / "map"), where, report)
    return table
