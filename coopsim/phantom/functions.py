"""Generate stubs of NVIDIA's library functions from what they return through their parameters (functions.toml)."""

import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

#: C code that writes an output of each type through the parameter `p`.
_WRITE = {
    "char": "*(char *)p = 0;",
    "half": "*(short *)p = 0;",
    "int": "*(int *)p = 0;",
    "float": "*(float *)p = 0;",
    "double": "*(double *)p = 0;",
    "size_t": "*(size_t *)p = 0;",
    "cuComplex": "memset((void *)p, 0, 8);",
    "cuDoubleComplex": "memset((void *)p, 0, 16);",
    "pointer": "*(void **)p = NULL;",
    "text": '*(const char **)p = "";',
    "handle": "*(void **)p = fresh();",
    "plan": "*(int *)p = (int)(uintptr_t)fresh();",
}
_START = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void seen(const char *name, char *said) {
  if (*said || !getenv("COOPSIM_PHANTOM_STUBS")) return;
  *said = 1;
  fprintf(stderr, "phantom: stub %s\\n", name);
}
__attribute__((unused)) static void *fresh(void) {
  static uintptr_t last = 0x7000;
  return (void *)__atomic_add_fetch(&last, 0x10, __ATOMIC_RELAXED);
}
"""


@dataclass(frozen=True)
class Output:
    """An output parameter: its index, its type, and the index of the parameter with its size in bytes, or -1."""

    parameter: int
    type: str
    size: int = -1


@dataclass(frozen=True)
class Function:
    """A library function: its name, its output parameters, and its return value."""

    name: str
    outputs: tuple[Output, ...] = ()
    returns: int = 0

    @property
    def stub(self) -> str:
        """C code of a stub that writes all outputs and returns."""
        most = max((n for out in self.outputs for n in (out.parameter, out.size)), default=-1)
        parameters = ", ".join(f"uintptr_t a{n}" for n in range(most + 1)) or "void"
        writes = "".join(f" {_write(out)}" for out in self.outputs)
        said = f'static char said; seen("{self.name}", &said);'
        return f"long {self.name}({parameters}) {{ {said}{writes} return {self.returns}; }}"


def of(soname: str) -> dict[str, Function]:
    """Return the functions of a library that are known, by name; {} for an unknown library."""
    return _all().get(soname.partition(".so")[0], {})


def stubs(names: list[str], known: dict[str, Function]) -> str:
    """Return the C source of stubs. Each does what is `known` of the function, or returns 0, success.

    With $COOPSIM_PHANTOM_STUBS, each prints its name at its first call.
    """
    return _START + "".join(f"{known.get(name, Function(name)).stub}\n" for name in names)


@cache
def _all() -> dict[str, dict[str, Function]]:
    text = resources.files("coopsim.phantom").joinpath("functions.toml").read_text(encoding="utf-8")
    return {
        library: {
            name: Function(name, *_read(gives)) for gives, patterns in by.items() for name in _names(patterns.split())
        }
        for library, by in tomllib.loads(text).items()
    }


def _read(gives: str) -> tuple[tuple[Output, ...], int]:
    """Parse outputs and return value: "5:int 6:buffer@7 -> 12"."""
    outputs, _, returns = gives.partition("->")
    found = re.findall(r"(\d+):(\w+)(?:@(\d+))?", outputs)
    return tuple(Output(int(at), kind, int(size or -1)) for at, kind, size in found), int(returns or 0)


def _names(patterns: list[str]) -> Iterator[str]:
    """Yield the names that patterns like cublas[SD]gemm_v2(_64)? match."""
    for pattern in patterns:
        parts = re.split(r"(\[\w+\]|\(\w+\)\?)", pattern)
        choices = [["", p[1:-2]] if p.startswith("(") else list(p[1:-1]) if p.startswith("[") else [p] for p in parts]
        yield from map("".join, itertools.product(*choices))


def _write(out: Output) -> str:
    if out.size >= 0:
        return f"if (a{out.parameter}) memset((void *)a{out.parameter}, 0, a{out.size});"
    return f"if (a{out.parameter}) {{ uintptr_t p = a{out.parameter}; {_WRITE[out.type]} }}"
