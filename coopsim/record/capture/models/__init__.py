"""The reference models, one per file of this folder. torch is imported only when a model is built."""

import importlib
import pkgutil
from functools import cache

from coopsim.base.errors import CaptureError, nearest
from coopsim.record.capture.models._model import Model, Setting

__all__ = ["Model", "Setting", "get", "names"]


@cache
def _all() -> dict[str, Model]:
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            model: Model = importlib.import_module(f"{__name__}.{module.name}").MODEL
            found[model.name] = model
    return found


def names() -> dict[str, str]:
    """Return the title of every reference model, by name."""
    return {name: model.title for name, model in _all().items()}


def get(name: str) -> Model:
    """Return the model called `name`. Raises CaptureError, with near matches, if there is none."""
    if name not in _all():
        near = nearest(name.lower(), _all(), likeness=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(_all())}."
        raise CaptureError(f"unknown model {name!r}; {hint} Your own training step: path/to/file.py:function")
    return _all()[name]
