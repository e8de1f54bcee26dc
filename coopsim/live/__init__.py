"""Runs real training steps inside a memory budget, by the schedules that coopsim plans, with the same bits as without.

A step that was recorded has a trace, and an op log: the list of all ops that it dispatched, views included, each an
entry. Steps that dispatch the same ops on the same sizes have one signature (signatures.py). A plan (plan.py) says what
to evict and recompute at each entry; what has no plan is evicted on demand. A tracked storage (tracked.py) is a storage
of the running step, and a value is a version of its bytes. The observer is compiled code that follows plans on Python's
behalf (observer.py), and the arena an allocator of our own (arena/).

Planning and plan files need no torch, so torch is imported only when Budget is.
"""

from typing import TYPE_CHECKING, Any

from coopsim.live.errors import DoesNotFit, LiveError

if TYPE_CHECKING:
    from coopsim.live.budget import Budget

__all__ = ["Budget", "DoesNotFit", "LiveError"]


def __getattr__(name: str) -> Any:
    if name == "Budget":
        import torch  # noqa: F401 (before ours: under `live run` its import goes on to import ours)

        from coopsim.live.budget import Budget

        return Budget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
