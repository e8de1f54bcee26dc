"""Record what a training step does, replay it in a simulated GPU memory under a budget, and see what fits.

    import coopsim

    trace = coopsim.load("traces/bert-large.parquet")
    schedule = coopsim.replay(trace, "coop", budget="50%")
    coopsim.summary(schedule, trace)["overhead"]

docs/reference/python.md has all of it. Nothing is imported before it is used, so that `import coopsim` costs nothing.
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

    from coopsim.api import capture as capture
    from coopsim.api import summary as summary
    from coopsim.api import sweep as sweep
    from coopsim.base.types import CoopsimError as CoopsimError
    from coopsim.base.types import Cost as Cost
    from coopsim.base.types import Divisor as Divisor
    from coopsim.base.types import InPlace as InPlace
    from coopsim.base.types import Phase as Phase
    from coopsim.base.types import Placement as Placement
    from coopsim.base.types import Recency as Recency
    from coopsim.base.types import Role as Role
    from coopsim.fitting import fit as fit
    from coopsim.phantom.here import phantom_gpu as phantom_gpu
    from coopsim.simulate.allocators import cuda_caching as cuda_caching
    from coopsim.simulate.policies import EvictionPolicy as EvictionPolicy
    from coopsim.simulate.policies import Policy as Policy
    from coopsim.simulate.policies import compiled as compiled
    from coopsim.simulate.replay import replay as replay
    from coopsim.study.figures.page import report as report
    from coopsim.study.optimum.gap import gap as gap
    from coopsim.study.paired import compare as compare
    from coopsim.study.plotting import plot as plot
    from coopsim.study.sweep.feasibility_map import map as map  # noqa: A004
    from coopsim.study.tables import bands as bands
    from coopsim.study.validate import validate as validate
    from coopsim.trace import Trace as Trace
    from coopsim.trace import TraceBuilder as TraceBuilder
    from coopsim.trace import save as save
    from coopsim.trace.schedule import Schedule as Schedule
    from coopsim.trace.schedule import load_any as load  # noqa: F401

_WHERE = {  # the public names: in which module, and as what
    "load": ("coopsim.trace.schedule", "load_any"),
    "save": ("coopsim.trace", "save"),
    "capture": ("coopsim.api", "capture"),
    "phantom_gpu": ("coopsim.phantom.here", "phantom_gpu"),
    "replay": ("coopsim.simulate.replay", "replay"),
    "sweep": ("coopsim.api", "sweep"),
    "map": ("coopsim.study.sweep.feasibility_map", "map"),
    "gap": ("coopsim.study.optimum.gap", "gap"),
    "report": ("coopsim.study.figures.page", "report"),
    "summary": ("coopsim.api", "summary"),
    "validate": ("coopsim.study.validate", "validate"),
    "bands": ("coopsim.study.tables", "bands"),
    "compare": ("coopsim.study.paired", "compare"),
    "plot": ("coopsim.study.plotting", "plot"),
    "cuda_caching": ("coopsim.simulate.allocators", "cuda_caching"),
    "Policy": ("coopsim.simulate.policies", "Policy"),
    "Recency": ("coopsim.base.types", "Recency"),
    "Placement": ("coopsim.base.types", "Placement"),
    "InPlace": ("coopsim.base.types", "InPlace"),
    "Divisor": ("coopsim.base.types", "Divisor"),
    "Cost": ("coopsim.base.types", "Cost"),
    "compiled": ("coopsim.simulate.policies", "compiled"),
    "EvictionPolicy": ("coopsim.simulate.policies", "EvictionPolicy"),
    "Trace": ("coopsim.trace", "Trace"),
    "TraceBuilder": ("coopsim.trace", "TraceBuilder"),
    "Role": ("coopsim.base.types", "Role"),
    "Phase": ("coopsim.base.types", "Phase"),
    "Schedule": ("coopsim.trace.schedule", "Schedule"),
    "fit": ("coopsim.fitting", "fit"),
    "CoopsimError": ("coopsim.base.types", "CoopsimError"),
}
__all__ = [*_WHERE]


def load_ipython_extension(_ipython: object) -> None:
    """Let PyTorch see a phantom A100 in this notebook's kernel (phantom_gpu); to be called before `import torch`."""
    _find("phantom_gpu")()


def _find(name: str) -> Any:
    module, attribute = _WHERE[name]
    return getattr(importlib.import_module(module), attribute)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _find(name)
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


class _Moved:
    """Finds the modules that pages of 0.2 named for policy files, with a warning: their names are coopsim's own now."""

    modules = {  # noqa: RUF012
        "coopsim.policies": "coopsim.simulate.policies",
        "coopsim.tables": "coopsim.study.tables",
        "coopsim.types": "coopsim.base.types",
    }

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Return the spec of a module that has moved; None for any other."""
        if name not in self.modules:
            return None
        return importlib.import_module("importlib.machinery").ModuleSpec(name, self)

    def create_module(self, _spec: object) -> None:
        """Let Python make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module what the one has that took its place."""
        import warnings

        warnings.warn(f"{module.__name__} has moved: import what you need from coopsim", DeprecationWarning, 2)
        here = importlib.import_module(self.modules[module.__name__])
        vars(module).update((name, value) for name, value in vars(here).items() if not name.startswith("__"))


for _finder in (_Moved, _Advice):
    if not any(type(found).__name__ == _finder.__name__ for found in sys.meta_path) and not (  # as after a reload
        _finder is _Advice and ("torch" in sys.modules or "COOPSIM_PHANTOM_CARD" in os.environ)
    ):
        sys.meta_path.insert(0, _finder())
