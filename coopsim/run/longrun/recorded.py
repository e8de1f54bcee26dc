"""The requests that a program made of PyTorch's allocator, with marks where its steps and their parts begin."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coopsim.base.files import replacing
from coopsim.base.types import CoopsimError

Ints: TypeAlias = NDArray[np.int64]
#: The shapes of a step's inputs, in the order in which they were given.
Shapes: TypeAlias = tuple[tuple[int, ...], ...]

#: Marks. TRAIN: the first module is called whose result is differentiated, after a step or a backward pass; STEP: an
#: optimizer step has ended; EVALUATION, GENERATION: a module is called without gradients, or by `generate`; END: it
#: has returned.
TRAIN, STEP, EVALUATION, GENERATION, END = range(5)


@dataclass(frozen=True)
class RecordedSteps:
    """Requests in order, and the marks between them.

    rows: int64 (n, 4) as trace/request_rows.py has them; allocation numbers count from 0, each is allocated once.
    marks: int64 (m, 2): the row before which it lies, and which. shapes: of each TRAIN mark, the inputs of the modules
    called from there on. conf: the allocator's settings, as PYTORCH_CUDA_ALLOC_CONF has them; torch: its version.
    unmet: why these requests cannot be replayed; "" if they can.
    """

    rows: Ints
    marks: Ints
    shapes: tuple[Shapes, ...]
    conf: str = ""
    torch: str = ""
    unmet: str = field(default="")

    def save(self, path: str) -> None:
        """Write it to a NumPy archive at that path, which comes into being when it is whole."""
        about = {"shapes": self.shapes, "conf": self.conf, "torch": self.torch, "unmet": self.unmet}
        with replacing(path) as part, open(part, "wb") as file:
            np.savez(file, rows=self.rows, marks=self.marks, about=np.array(json.dumps(about)))

    @classmethod
    def load(cls, path: Path) -> "RecordedSteps":
        """Read what `save` wrote. Raises CoopsimError if it cannot be replayed."""
        with np.load(path) as file:
            about = json.loads(str(file["about"]))
            shapes = tuple(tuple(tuple(one) for one in of) for of in about["shapes"])
            found = cls(file["rows"], file["marks"], shapes, about["conf"], about["torch"], about["unmet"])
        if found.unmet:
            raise CoopsimError(f"the steps cannot be replayed: {found.unmet}")
        return found
