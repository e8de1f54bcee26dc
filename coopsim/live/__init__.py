"""Runs real training steps inside a memory budget, by the schedules that coopsim plans, with the same bits as without.

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
