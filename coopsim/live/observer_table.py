"""Encodes the rows of a plan as one array of numbers, which table.h reads."""

import ctypes
import weakref
from collections.abc import Iterable
from typing import Any

from coopsim.live.actions import Action, Arrive, Drop, Evict, EvictOffloaded, Fetch, Offload, Recompute
from coopsim.live.drawn import draws
from coopsim.live.operands import Repeats, repeats
from coopsim.live.plan import Plan, Row

EVICT, DROP, AGAIN, OFFLOAD, EVICT_OFFLOADED, FETCH, ARRIVE = range(7)  #: kinds of action (table.h)
_KINDS = {Evict: EVICT, Drop: DROP, Offload: OFFLOAD, EvictOffloaded: EVICT_OFFLOADED, Fetch: FETCH, Arrive: ARRIVE}


class Table:
    """A plan in the memory of the observer's library. device_type: "cuda" or "cpu"."""

    def __init__(self, lib: Any, plan: Plan, device_type: str) -> None:
        rows = plan.rows
        schemas = [getattr(row.func, "_schema", None) for row in rows]
        names = [(schema.name if schema else "").encode() for schema in schemas]
        overloads = [(schema.overload_name if schema else "").encode() for schema in schemas]
        called = [row for row in rows if row.call]
        numbers = [device_type == "cuda", len(plan.program.bytes), len(plan.program.reads), len(called)]
        for row in called:
            numbers += [row.entry.op, *_made(plan, row)]
        numbers.append(len(rows))
        for row in rows:
            numbers += _row(plan, row)
        text = ctypes.c_char_p * len(rows)
        array = (ctypes.c_int64 * len(numbers))(*numbers)
        self.handle = ctypes.c_void_p(lib.coopsim_table(array, text(*names), text(*overloads)))
        weakref.finalize(self, lib.coopsim_free_table, self.handle).atexit = False


def _made(plan: Plan, row: Row) -> list[int]:
    """The numbers of what an op reads and makes."""
    op = row.entry.op
    return [
        *_counted(row.entry.inputs),
        *_counted(row.entry.results),
        *_counted(sorted(plan.mutates[op])),
        *_pairs(plan.program.reads[op]),
        *_pairs(plan.program.writes[op]),
        repeats(row.func) is not Repeats.NEVER,
    ]


def _row(plan: Plan, row: Row) -> list[int]:
    entry = row.entry
    view = entry.op < 0
    creates = any(s < 0 or s not in entry.inputs for s in entry.results)
    changes = entry.mutable and bool(plan.watched)
    op = hasattr(row.func, "_schema")
    again, draw = (repeats(row.func), draws(row.func)) if op else (Repeats.ALWAYS, 0)
    numbers = [entry.op if row.call else -1, changes, again, draw, creates, view]
    numbers += _counted(row.elements)
    for pairs in (row.look, [] if view else row.find, row.makes, row.copies, row.keep):
        numbers += _pairs(pairs)
    numbers.append(len(row.before))
    for action in row.before:
        numbers += _action(action)
    return numbers


def _action(action: Action) -> list[int]:
    if isinstance(action, Recompute):
        return [AGAIN, action.op, *_pairs(action.targets), *_pairs(action.takeovers)]
    return [_KINDS[type(action)], *action.value, action.at if isinstance(action, Offload) else 0]


def _counted(numbers: Iterable[int]) -> list[int]:
    found = list(numbers)
    return [len(found), *found]


def _pairs(pairs: Iterable[tuple[int, int]]) -> list[int]:
    found = list(pairs)
    return [len(found), *(number for pair in found for number in pair)]
