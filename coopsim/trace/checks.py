"""Refuse a malformed trace, naming the row and the reason."""

import numpy as np

from coopsim.base.types import CoopsimError, Phase, Role
from coopsim.trace.table import Trace

_ROLES = {str(r) for r in Role}
_PHASES = {str(p) for p in Phase}


class TraceError(CoopsimError):
    """The trace contradicts itself, or is not one. The message names the row of the file and the reason."""


def event_rows(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers, in the file, of the ops and of the frees (storages come first, then both in program order)."""
    ops = trace.n_storages + np.arange(trace.n_ops) + np.searchsorted(trace.freed_after, np.arange(trace.n_ops))
    frees = trace.n_storages + np.arange(len(trace.freed)) + trace.freed_after + 1
    return ops, frees


def check(trace: Trace) -> None:
    """Raise TraceError at the first row that cannot be: unknown storage, use after free, double free, …"""
    _check_tables(trace)
    op_rows, free_rows = (rows.tolist() for rows in event_rows(trace))
    n = trace.n_storages
    unborn, alive, freed = 0, 1, 2
    state = np.where(trace.alive_at_start, alive, unborn).tolist()
    lists = zip(trace.reads, trace.mutates, trace.creates, strict=True)
    frees, after = trace.freed.tolist(), trace.freed_after.tolist()
    k = 0

    def known(storage: int, row: int) -> None:
        if not 0 <= storage < n:
            raise TraceError(f"row {row}: unknown storage {storage} (the trace has {n})")

    for op in range(-1, trace.n_ops):
        if op >= 0:
            row, name = op_rows[op], trace.name[op]
            reads, mutates, creates = next(lists)
            for verb, storages in (("reads", reads), ("mutates", mutates)):
                for s in storages:
                    known(s, row)
                    if state[s] != alive:
                        why = "after it was freed" if state[s] == freed else "before anything created it"
                        raise TraceError(f"row {row}: op {op} ({name}) {verb} storage {s} {why}")
            for s in creates:
                known(s, row)
                if state[s] != unborn:
                    raise TraceError(f"row {row}: op {op} ({name}) creates storage {s}, which exists already")
                state[s] = alive
        while k < len(frees) and after[k] == op:
            s, row = frees[k], free_rows[k]
            known(s, row)
            if state[s] != alive:
                raise TraceError(
                    f"row {row}: double free of storage {s}"
                    if state[s] == freed
                    else f"row {row}: storage {s} is freed before anything created it"
                )
            state[s] = freed
            k += 1
    _check_successors(trace, [s == alive for s in state])


def _check_tables(trace: Trace) -> None:
    if trace.n_ops == 0:
        raise TraceError("the trace has no ops")
    op_rows, _ = event_rows(trace)
    for what, values in (("bytes", trace.bytes),):
        if (values < 0).any():
            row = int(np.argmax(values < 0))
            raise TraceError(f"row {row}: negative {what} ({values[row]})")
    for what, values in (
        ("cost_ns", trace.cost_ns),
        ("flops", trace.flops),
        ("bytes_moved", trace.bytes_moved),
        ("step", trace.step),
        ("stream", trace.stream),
        ("peers", trace.peers),
    ):
        if (values < 0).any():
            op = int(np.argmax(values < 0))
            raise TraceError(f"row {op_rows[op]}: negative {what} ({values[op]})")
    if (trace.temporaries.values < 0).any():
        at = int(np.argmax(trace.temporaries.values < 0))
        op = int(np.searchsorted(trace.temporaries.start, at, "right")) - 1
        raise TraceError(f"row {op_rows[op]}: negative temporary ({trace.temporaries.values[at]})")
    _check_requests(trace, op_rows)
    for row, role in enumerate(trace.role):
        if role not in _ROLES:
            raise TraceError(f"row {row}: unknown role {role!r}")
    for op, phase in enumerate(trace.phase):
        if phase not in _PHASES:
            raise TraceError(f"row {op_rows[op]}: unknown phase {phase!r}")
    steps = np.diff(trace.step, prepend=0)
    if ((steps < 0) | (steps > 1)).any():
        op = int(np.argmax((steps < 0) | (steps > 1)))
        raise TraceError(f"row {op_rows[op]}: steps out of order")


def _check_requests(trace: Trace, op_rows: np.ndarray) -> None:
    """Each storage that an op creates is taken once, and no temporary is given back before it was taken, or twice."""
    for op, (codes, created) in enumerate(zip(trace.requests, trace.creates, strict=True)):
        n, temporaries, seen = len(created), 0, set()
        for code in codes:
            if code > 0:
                temporaries += 1
            elif code == 0 or code in seen or code < -n - temporaries:
                raise TraceError(f"row {op_rows[op]}: op {op} ({trace.name[op]}) has an impossible request ({code})")
            else:
                seen.add(code)
        if codes and not seen.issuperset(range(-n, 0)):
            raise TraceError(f"row {op_rows[op]}: op {op} ({trace.name[op]}) creates more than it requests")


def _check_successors(trace: Trace, alive_at_end: list[bool]) -> None:
    """What is alive at the end must hand on to storages of the same bytes that were alive at the start."""
    taken: set[int] = set()
    for s, heir in enumerate(trace.becomes.tolist()):
        if heir == -1:
            continue
        if not 0 <= heir < trace.n_storages:
            raise TraceError(f"row {s}: becomes unknown storage {heir}")
        if not alive_at_end[s]:
            raise TraceError(f"row {s}: storage {s} should become {heir}, but it is freed before the end")
        if not trace.alive_at_start[heir]:
            raise TraceError(f"row {s}: becomes storage {heir}, which is not alive at the start")
        if trace.bytes[s] != trace.bytes[heir]:
            raise TraceError(f"row {s}: becomes storage {heir} of another size")
        if heir in taken:
            raise TraceError(f"row {s}: storage {heir} has two predecessors")
        taken.add(heir)
