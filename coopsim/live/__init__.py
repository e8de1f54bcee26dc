"""Real training steps inside a hard budget, bit for bit, by the schedules that coopsim plans.

Plans and files of them need no torch, so it is imported with Budget.
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
