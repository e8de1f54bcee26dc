"""A memory map as a grid of cells: what most of each cell holds. Thousands of small residencies become a picture."""

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import Role
from coopsim.study.figures.residences import ROLES, Residences

Cells = NDArray[np.intp]

FREE = -1
RECOMPUTED = len(ROLES)  #: what has been made again, whatever its role
PERMANENT = tuple(ROLES.index(r) for r in (Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE))  #: what stays throughout
_LONG = 0.05  # of the step: what stays as long divides the memory, so it must be seen however thin it is
_SEEN = 0.6  # of a cell: more than half


def cells(r: Residences, budget: int, rows: int, columns: int) -> Cells:
    """What most of each cell holds: an index of ROLES, RECOMPUTED, or FREE. The first row is at address 0.

    A cell is `budget / rows` bytes high and `r.length_ns / columns` long. A residency less than a cell high is seen
    if it is long, or if others of its kind fill the cell with it.
    """
    kind = np.where(r.recomputed, RECOMPUTED, r.role)
    low, high = r.address / budget * rows, (r.address + r.bytes) / budget * rows
    begin, end = r.begin_ns / r.length_ns * columns, r.end_ns / r.length_ns * columns
    thin = (high - low < 1) & (end - begin >= _LONG * columns)  # in one row, that of the middle
    first = np.where(thin, (low + high) / 2, low).astype(np.intp).clip(0, rows - 1)
    last = np.where(thin, first, np.ceil(high).astype(np.intp) - 1).clip(first, rows - 1)

    residency = np.repeat(np.arange(len(r)), last - first + 1)
    row = (
        np.arange(len(residency))
        - np.repeat(np.cumsum(last - first + 1) - (last - first + 1), last - first + 1)
        + first[residency]
    )
    share = np.minimum(high[residency], row + 1) - np.maximum(low[residency], row)
    share = np.where(thin[residency], np.maximum(high - low, _SEEN)[residency], share)
    steps = np.zeros((RECOMPUTED + 1, rows, columns + 2))  # what is added from each column to the next
    for at, sign in ((begin[residency], 1), (end[residency], -1)):
        column = at.astype(np.intp)
        part = at - column
        np.add.at(steps, (kind[residency], row, column), sign * share * (1 - part))
        np.add.at(steps, (kind[residency], row, column + 1), sign * share * part)
    held = steps.cumsum(axis=2)[:, :, :columns]
    return np.where(held.sum(axis=0) >= 0.5, held.argmax(axis=0), FREE)


def largest_stretch(r: Residences, budget: int, time_ns: int) -> tuple[int, int]:
    """Where, at that time of the step, the longest run of memory begins and ends in which nothing of PERMANENT lies."""
    here = (r.begin_ns <= time_ns) & (time_ns < r.end_ns) & np.isin(r.role, PERMANENT)
    order = np.argsort(r.address[here], kind="stable")
    low = r.address[here][order]
    begins, ends = np.append(0, low + r.bytes[here][order]), np.append(low, budget)
    k = int((ends - begins).argmax())
    return int(begins[k]), int(ends[k])
