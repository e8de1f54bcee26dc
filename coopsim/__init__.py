"""Record what a training step does, replay it in a simulated GPU memory under a budget, and see what fits.

    import coopsim

    trace = coopsim.load("traces/bert-large.parquet")
    schedule = coopsim.replay(trace, "coop", budget="50%")
    coopsim.summary(schedule, trace)["overhead"]

docs/api.md has all of it. Nothing is imported before it is used, so that `import coopsim` costs nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from coopsim.version import __version__ as __version__

TYPE_CHECKING = False  # as checkers know it, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from coopsim.allocators import cuda_caching as cuda_caching
    from coopsim.api import capture as capture
    from coopsim.api import summary as summary
    from coopsim.api import sweep as sweep
    from coopsim.figures.reported import report as report
    from coopsim.fit import fit as fit
    from coopsim.optimum.compared import gap as gap
    from coopsim.paired import compare as compare
    from coopsim.phantom.here import phantom_gpu as phantom_gpu
    from coopsim.plotting import plot as plot
    from coopsim.policies import EvictionPolicy as EvictionPolicy
    from coopsim.policies import Policy as Policy
    from coopsim.policies import compiled as compiled
    from coopsim.replay import replay as replay
    from coopsim.schedule import Schedule as Schedule
    from coopsim.schedule import load_any as load  # noqa: F401
    from coopsim.sweep.mapped import map as map  # noqa: A004
    from coopsim.tables import bands as bands
    from coopsim.trace import Trace as Trace
    from coopsim.types import CoopsimError as CoopsimError
    from coopsim.validate import validate as validate

_WHERE = {  # the public names: in which module, and as what
    "load": ("coopsim.schedule", "load_any"),
    "capture": ("coopsim.api", "capture"),
    "phantom_gpu": ("coopsim.phantom.here", "phantom_gpu"),
    "replay": ("coopsim.replay", "replay"),
    "sweep": ("coopsim.api", "sweep"),
    "map": ("coopsim.sweep.mapped", "map"),
    "gap": ("coopsim.optimum.compared", "gap"),
    "report": ("coopsim.figures.reported", "report"),
    "summary": ("coopsim.api", "summary"),
    "validate": ("coopsim.validate", "validate"),
    "bands": ("coopsim.tables", "bands"),
    "compare": ("coopsim.paired", "compare"),
    "plot": ("coopsim.plotting", "plot"),
    "cuda_caching": ("coopsim.allocators", "cuda_caching"),
    "Policy": ("coopsim.policies", "Policy"),
    "compiled": ("coopsim.policies", "compiled"),
    "EvictionPolicy": ("coopsim.policies", "EvictionPolicy"),
    "Trace": ("coopsim.trace", "Trace"),
    "Schedule": ("coopsim.schedule", "Schedule"),
    "fit": ("coopsim.fit", "fit"),
    "CoopsimError": ("coopsim.types", "CoopsimError"),
}
_PACKAGES = ("capture", "fit", "replay", "sweep", "validate")  # of these names there is a package, too
__all__ = [*_WHERE]


def load_ipython_extension(_ipython: object) -> None:
    """Let PyTorch see a phantom A100 in this notebook's kernel (phantom_gpu); to be called before `import torch`."""
    _find("phantom_gpu")()


def _find(name: str) -> Any:
    module, attribute = _WHERE[name]
    return getattr(importlib.import_module(module), attribute)


class _Coopsim(ModuleType):
    """This package: where a package in it has a function's name, the name stands for the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PACKAGES or type(value) is not ModuleType:  # what an import sets, of the package
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Coopsim


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = _find(name)
    if name in _PACKAGES:  # so that coopsim.replay.loop is found, too, once it is imported
        value.__dict__ = importlib.import_module(f"{__name__}.{name}").__dict__
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_WHERE, "__version__"])


class _Advice:
    """Adds what to do to the error of `import torch` where it lacks NVIDIA's libraries."""

    looks = False

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Return the spec of torch, whose loader is made to add the advice; None for any other module."""
        if name != "torch" or self.looks:
            return None
        self.looks = True
        try:
            spec = importlib.import_module("importlib.util").find_spec(name)
        finally:
            self.looks = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                execute(module)
            except (ImportError, OSError) as error:
                if "cannot open shared object file" in str(error):
                    error.add_note(
                        "coopsim: PyTorch is here without NVIDIA's libraries. In a new process, before `import torch`, "
                        "call coopsim.phantom_gpu(), or in a notebook %load_ext coopsim; start a script with `coopsim "
                        "phantom run -- python SCRIPT` (docs/install.md)"
                    )
                raise

        spec.loader.exec_module = exec_module
        return spec


if "torch" not in sys.modules and "COOPSIM_PHANTOM_CARD" not in os.environ:
    sys.meta_path.insert(0, _Advice())
