"""Tell evaluation from generation: a module called without gradients, and one called so by a `generate`."""

from types import FrameType

_DEEP = 40  #: frames that are looked at, at most


def generates(frame: FrameType | None) -> bool:
    """Whether a function named `generate` is among the callers of that frame."""
    for _ in range(_DEEP):
        if frame is None:
            return False
        if frame.f_code.co_name == "generate":
            return True
        frame = frame.f_back
    return False
