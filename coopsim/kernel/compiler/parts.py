"""Compile what kernels call as parts of the kernel that Python calls.

Numba makes a finished program of every function that it meets: it links in all that the function calls, optimises the
whole and emits machine code. In a tree of calls the same code is so optimised and emitted once for each level above it.
Here only the function at the root is finished; those below are kept as they are for linking. Nothing else changes:
the root is optimised as a whole in any case. This relies on how Numba is built inside, so pyproject.toml has the
versions that it was tried with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that is only ever linked into other code."""

    def _optimize_final_module(self) -> None:
        """The root's turn."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        """There is no machine code to point to."""
        return 0

    @property
    def codegen(self) -> Any:
        return _Compiler(self._codegen)


class _Compiler:
    """Numba's code generator for a part, which has no place in memory to keep an environment."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Nothing to set: nopython code does not look at it."""


@contextmanager
def all_parts_but(root: str) -> Iterator[None]:
    """What is compiled inside, except the function with the name `root`, becomes a part."""
    codegen = cpu_target.target_context.codegen()
    make = codegen.create_library

    def create_library(name: str, **options: Any) -> Any:
        return make(name, **options) if name == root else _Part(codegen, name, **options)

    codegen.create_library = create_library
    compare = TargetConfig.__eq__, TargetConfig.__hash__
    TargetConfig.__eq__, TargetConfig.__hash__ = _same_options, _one_for_all
    try:
        yield
    finally:
        TargetConfig.__eq__, TargetConfig.__hash__ = compare
        del codegen.create_library


# Numba looks up each operator in tables whose keys hold all options of the compilation. It compares them, and hashes
# their names, by asking for one after the other: a tenth of all the time.


def _same_options(one: Any, other: Any) -> bool:
    return one is other or (isinstance(other, TargetConfig) and one._values == other._values)


def _one_for_all(_one: Any) -> int:
    return hash(TargetConfig)
