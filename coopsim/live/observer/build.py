"""Compile the observer for the installed torch, once, into the user's cache folder (half a minute)."""

import hashlib
import os
import re
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import torch

from coopsim.phantom import compilers
from coopsim.phantom.build import cache_folder

NAME = "libcoopsim-observer.so"
SOURCES = (
    *(
        "account.h",
        "calls.h",
        "cells.h",
        "errors.h",
        "exchange.h",
        "follower.h",
        "operands.h",
        "storages.h",
        "sums.h",
        "table.h",
    ),
    "observer.cpp",
)
_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-shared", "-w"]
_VIRTUAL = re.compile(r"virtual\s+([\w:<>*&\s]+?)\s*\b(\w+)\(([^;{]*?)\)\s*const\s*=\s*0\s*;")


class NoObserverError(Exception):
    """The observer cannot be had here; the message says why, in one line."""


def library() -> Path:
    """The compiled observer. NoObserverError if there is no C++ compiler, or if this torch's headers are others."""
    cxx = compiler()
    headers = Path(torch.__file__).parent / "include"
    file = cache_folder() / f"live-{_key(cxx)}" / NAME
    if file.is_file():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        delegates = Path(scratch, "delegates.h")
        delegates.write_text(_delegates(headers / "c10/core/impl/PyInterpreter.h"), encoding="utf-8")
        for name in SOURCES:
            Path(scratch, name).write_text(_source(name), encoding="utf-8")
        source = Path(scratch, "observer.cpp")
        made = Path(scratch, NAME)
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        libraries = [f"-L{Path(torch.__file__).parent / 'lib'}", "-ltorch_cpu", "-lc10"]
        command = [cxx, *_FLAGS, abi, f"-I{headers}", f"-I{scratch}", str(source), "-o", str(made), *libraries]
        run = subprocess.run(command, check=False, capture_output=True, text=True, env=_plain())  # noqa: S603
        if run.returncode:
            raise NoObserverError(f"{cxx} cannot compile it: {compilers.first_error(run.stderr)}")
        made.rename(file)
    return file


def compiler() -> str:
    """The C++ compiler: $CXX, or c++, g++, clang++. NoObserverError if there is none."""
    found = compilers.find("CXX")
    if found is None:
        raise NoObserverError(compilers.missing("CXX"))
    return found


def _plain() -> dict[str, str]:
    """The environment without what the phantom GPU loads into every program."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}


def _source(name: str) -> str:
    return resources.files("coopsim.live.observer").joinpath(name).read_text(encoding="utf-8")


def _key(cxx: str) -> str:
    """Names everything that the result depends on."""
    version = subprocess.run([cxx, "--version"], check=False, capture_output=True, text=True, env=_plain()).stdout  # noqa: S603
    h = hashlib.blake2b(digest_size=8)
    for text in (*map(_source, SOURCES), _source("build.py"), torch.__version__, torch.version.git_version, version):
        h.update(str(text).encode() + b"\0")
    return h.hexdigest()


def _delegates(header: Path) -> str:
    """C++ that hands each virtual function of PyInterpreterVTable, but `dispatch` and `detach`, to `real`."""
    lines = []
    for kind, name, given in _VIRTUAL.findall(re.sub(r"//[^\n]*", "", header.read_text(encoding="utf-8"))):
        if name in ("dispatch", "detach"):
            continue
        types = [_type(" ".join(one.split())) for one in given.split(",") if one.strip()]
        takes = ", ".join(f"{one} a{i}" for i, one in enumerate(types))
        gives = ", ".join(f"std::move(a{i})" for i in range(len(types)))
        lines.append(f"{kind} {name}({takes}) const override {{ return real->{name}({gives}); }}")
    return "\n".join(lines) + "\n"


def _type(parameter: str) -> str:
    """Of a parameter, which may have a name: `const TensorImpl* self`, `at::MemoryFormat`."""
    words = parameter.split(" ")
    named = len(words) > 1 and re.fullmatch(r"\w+", words[-1]) and words[-2] != "const"
    return " ".join(words[:-1]) if named else parameter
