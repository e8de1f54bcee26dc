"""The parts of a calibration: what each measures, and how many measurements it consists of."""

from collections.abc import Callable
from dataclasses import dataclass

from coopsim.calibrate import shapes

#: The readings of the context: after what, and which libraries have been used by then (cards/context.py).
READINGS: dict[str, tuple[str, ...]] = {
    "first tensor": (),
    "matrix product": ("cublas",),
    "convolution": ("cudnn",),
    "transformer with optimizer": ("cublas", "cublaslt"),
    "linear algebra": ("cusolver",),
    "FFT": ("cufft",),
}


@dataclass(frozen=True)
class Part:
    """A part. module: its modules are measure_*.py. size: its measurements. apart: each needs a process of its own.

    timed: the card's clocks have to go up first.
    """

    name: str
    what: str
    module: str
    size: Callable[[], int]
    apart: bool = False
    timed: bool = False


def _one() -> int:
    return 1


PARTS = {
    part.name: part
    for part in (
        Part("context", "what the CUDA context takes", "context", lambda: len(READINGS), apart=True),
        Part("link", "copies between card and host", "link", _one, timed=True),
        Part("host", "the host's time per op", "host", _one, timed=True),
        Part("addresses", "where the driver puts memory", "addresses", _one),
        Part(
            "prices",
            "how long ops take",
            "prices",
            lambda: sum(1 for _ in shapes.ops()) + sum(1 for _ in shapes.convolutions()),
            timed=True,
        ),
        Part(
            "workspaces",
            "what libraries take while ops run",
            "workspaces",
            lambda: 1 + sum(1 for _ in shapes.convolutions()) + sum(1 for _ in shapes.recurrent()),
        ),
    )
}
