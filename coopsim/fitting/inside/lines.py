"""Run a remedy's printed lines in the script's process, where their place in the files is not certain."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from coopsim.fitting.changes import Changes
from coopsim.fitting.inside.models import Models


def install(changes: Changes, models: Models) -> None:
    """From now on, run the lines about a model before its first call."""

    def first(number: int, model: nn.Module) -> None:
        for about, name, rows in changes.lines:
            if about == number:
                exec("\n".join(rows), {"torch": torch, **_named(name, models.user_s(number, model))})  # noqa: S102

    if changes.lines:
        models.on_first_call.append(first)


def _named(name: str, model: nn.Module) -> dict[str, Any]:
    """Return variables by which lines find a model; a name with dots is an attribute of one."""
    first, *path = name.split(".")
    value: Any = model
    for part in reversed(path):
        value = SimpleNamespace(**{part: value})
    return {first: value} if name else {}
