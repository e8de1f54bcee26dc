"""How long ops take: those of shapes.py, in microseconds."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch

from coopsim.calibrate import on_card, ops, shapes
from coopsim.calibrate.shapes import IEEE, MeasuredCase


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the ops: keys, and the calls that return the row of a table of times."""
    for case in chain(shapes.ops(), shapes.convolutions()):
        yield case.key, lambda case=case: _timed(case)  # type: ignore[misc]


def _timed(case: MeasuredCase) -> dict[str, Any]:
    torch.backends.cuda.matmul.allow_tf32 = case.more != IEEE
    call = ops.convolution(case) if case.kind == "conv" else ops.OPS[case.op.split()[0]](case)
    _, freed, kept = on_card.took(call)
    us = round(on_card.microseconds(call), 2)
    return case.row() | {"workspace_bytes": freed, "kept_bytes": kept, "us": us}
