"""Bytes of a trace that are alive while its ops run, with nothing evicted."""

from typing import Any, Protocol

import numpy as np

from coopsim.base.types import Role
from coopsim.trace.ragged import Bools, Ints, Ragged


class Lifetimes(Protocol):
    """What of a Trace this module reads."""

    @property
    def n_ops(self) -> int: ...
    @property
    def bytes(self) -> Ints: ...
    @property
    def role(self) -> list[str]: ...
    @property
    def alive_at_start(self) -> Bools: ...
    @property
    def creates(self) -> Ragged: ...
    @property
    def temporaries(self) -> Ragged: ...
    @property
    def freed(self) -> Ints: ...
    @property
    def freed_after(self) -> Ints: ...


def bytes_by_role(trace: Lifetimes) -> dict[str, int]:
    """Bytes of each role, made or there before, in the order of Role."""
    roles = np.array(trace.role)
    return {str(r): int(trace.bytes[roles == r].sum()) for r in Role if (roles == r).any()}


def round_up(nbytes: Any, granule: int) -> Any:
    """`nbytes` rounded up to a multiple of `granule`."""
    return -(-nbytes // granule) * granule


def live_bytes(trace: Lifetimes, granule: int = 1) -> np.ndarray:
    """Bytes alive while each op runs, with what it makes and its temporaries; nothing evicted, updates in place."""
    size = round_up(trace.bytes, granule)
    result: np.ndarray = _alive(trace, size) + _inside(trace, granule)
    return result


def live_bytes_by_role(trace: Lifetimes) -> dict[str, np.ndarray]:
    """What adds up to `live_bytes`: bytes per op of each role that is there, in the order of Role."""
    roles = np.array(trace.role)
    found = {str(role): _alive(trace, np.where(roles == role, trace.bytes, 0)) for role in Role}
    found[str(Role.TEMPORARY)] = found[str(Role.TEMPORARY)] + _inside(trace, 1)
    return {role: alive for role, alive in found.items() if alive.any()}


def _alive(trace: Lifetimes, size: np.ndarray) -> np.ndarray:
    """Of storages of these sizes, the bytes that are alive while each op runs."""
    op_of_creation = np.repeat(np.arange(trace.n_ops), np.diff(trace.creates.start))
    change = np.zeros(trace.n_ops + 1, np.int64)
    np.add.at(change, op_of_creation, size[trace.creates.values])
    np.add.at(change, trace.freed_after + 1, -size[trace.freed])
    result: np.ndarray = np.cumsum(change[:-1]) + size[trace.alive_at_start].sum()
    return result


def _inside(trace: Lifetimes, granule: int) -> np.ndarray:
    """Bytes that each op asks for inside, its temporaries."""
    op_of_temporary = np.repeat(np.arange(trace.n_ops), np.diff(trace.temporaries.start))
    inside = np.zeros(trace.n_ops, np.int64)
    np.add.at(inside, op_of_temporary, round_up(trace.temporaries.values, granule))
    return inside


def peak_bytes(trace: Lifetimes, granule: int = 1) -> int:
    """Peak without eviction: what a memory ratio of 100 % is."""
    return int(max(live_bytes(trace, granule).max(), round_up(trace.bytes, granule)[trace.alive_at_start].sum()))
