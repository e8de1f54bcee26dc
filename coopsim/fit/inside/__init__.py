"""Inside a script's processes: makes the changes of a remedy, and looks at what the parent wants to know.

Loaded by coopsim.script.inside as a task's guest, once torch is there. Only here does coopsim.fit import torch.
"""

from typing import Any

from coopsim.fit.changes import Changes
from coopsim.fit.inside.guest import Guest


def begin(watch: Any, told: str) -> Guest:
    """Start; `told` is Changes.message()."""
    return Guest(watch, Changes.read(told))
