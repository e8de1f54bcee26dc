"""Replays over a grid of traces, policies, allocators, budgets and options, on any concurrent.futures.Executor.

`sweep` runs the budgets that it is given; `feasibility_map` all on a fine grid, closer where the outcome changes. Each
finished row goes to a journal beside the output at once; when all are there, the table is written and the journal
removed. Started again with the same grid, both read the journal and do the rest.
"""

from coopsim.simulate.metrics import WALL_CLOCK_COLUMNS
from coopsim.study.sweep.feasibility_map import Scan, feasibility_map
from coopsim.study.sweep.grid import Grid, GridSetting, Point
from coopsim.study.sweep.sweep import sweep
from coopsim.study.sweep.workers import Dask, Processes, Workers

__all__ = [
    "WALL_CLOCK_COLUMNS",
    "Dask",
    "Grid",
    "GridSetting",
    "Point",
    "Processes",
    "Scan",
    "Workers",
    "feasibility_map",
    "sweep",
]
