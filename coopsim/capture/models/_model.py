"""What a reference model's file states."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Model:
    """A model and its training step.

    `build(batch)` makes model, optimizer and data on the device "cuda", and returns the step, which takes no arguments.
    `batch` is the default; `details` go into the header of its traces; `source` says whose setting it is.
    """

    name: str
    title: str
    batch: int
    source: str
    build: Callable[[int], Callable[[], object]]
    details: Mapping[str, str | int | float] = field(default_factory=dict)
