"""Describe an op to the C++ library (interpose/schemas.h), which asks once per op."""

from typing import Any

import torch

from coopsim.record.observe import calls, effects, flops
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.data_sizes import INDEX
from coopsim.record.observe.interpose.library import Description
from coopsim.record.observe.known import CONSTANTS, LIFT, SET

FOR_PYTHON, BY_SHAPE, OTHERS_TIME, COPIES, SELECTS, CONSTANT, COUNTS, LIFTS = (1 << i for i in range(8))

#: Namespaces of collectives. NCCL does the work, and the stand-in NCCL knows how long it takes.
COLLECTIVES = ("c10d::", "_c10d_functional::")
_COPIES = ("aten::_to_copy", "aten::copy_")
_COUNTS = ("aten::sum", "aten::count_nonzero")


def describe(func: Any, for_python: frozenset[str], model: OpCostModel, found: Description) -> None:
    """Fill in `found`, the description of op `func`: flags, its time by bytes, the arguments that it changes, as bits.

    Ops named in `for_python` ("aten::add"), and those whose result depends on the device's data, are watched by Python.
    """
    name = func._schema.name
    looks = torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
    selects = name in INDEX
    found.flags = sum(
        flag
        for flag, on in (
            (FOR_PYTHON, (looks and not selects) or name in for_python),
            (BY_SHAPE, flops.has_flops(func) or calls.by_shape(func)),
            (OTHERS_TIME, name.startswith(COLLECTIVES)),
            (COPIES, name in _COPIES),
            (SELECTS, selects),
            (CONSTANT, name in CONSTANTS | SET),
            (COUNTS, name in _COUNTS),
            (LIFTS, name == LIFT),
        )
        if on
    )
    for i, half in enumerate((False, True)):
        found.ns[i], found.per_byte[i] = model.by_bytes(func, half=half)
    number = {argument.name: i for i, argument in enumerate(func._schema.arguments)}
    rule = effects.rule(func)
    found.changes = _bits(number[argument] for argument in rule.always | rule.if_given | rule.if_training)
    found.if_given = _bits(number[argument] for argument in rule.if_given)
    found.given = number.get(effects.SCALE, 0)
    found.if_true = _bits(number[argument] for argument in rule.if_training)
    found.true_flags = _bits(number[flag] for flag in effects.WHEN_TRAINING if flag in number) if found.if_true else 0


def _bits(places: Any) -> int:
    return sum({1 << place for place in places})
