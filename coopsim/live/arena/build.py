"""Compile the arena for the installed torch, once, into the user's cache folder (ten seconds)."""

import hashlib
import os
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import torch

from coopsim.phantom import compilers
from coopsim.phantom.build import cache_folder

NAME = "libcoopsim-arena.so"
_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-shared", "-w"]


class NoArenaError(Exception):
    """There can be no arena here; the message says why, in one line."""


def library() -> Path:
    """The compiled arena. NoArenaError if there is no C++ compiler, or if this torch's headers are others."""
    cxx = compilers.find("CXX")
    if cxx is None:
        raise NoArenaError(compilers.missing("CXX"))
    folder = Path(torch.__file__).parent
    file = cache_folder() / f"arena-{_key(cxx)}" / NAME
    if file.is_file():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        source, made = Path(scratch, "arena.cpp"), Path(scratch, NAME)
        source.write_text(_source("arena.cpp"), encoding="utf-8")
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        command = [cxx, *_FLAGS, abi, f"-I{folder / 'include'}", str(source), "-o", str(made)]
        command += [f"-L{folder / 'lib'}", "-lc10", "-ldl"]
        run = subprocess.run(command, check=False, capture_output=True, text=True, env=_plain())  # noqa: S603
        if run.returncode:
            raise NoArenaError(f"{cxx} cannot compile it: {compilers.first_error(run.stderr)}")
        made.rename(file)
    return file


def _plain() -> dict[str, str]:
    """The environment without what the phantom GPU loads into every program."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}


def _source(name: str) -> str:
    return resources.files("coopsim.live.arena").joinpath(name).read_text(encoding="utf-8")


def _key(cxx: str) -> str:
    """Names everything that the result depends on."""
    version = subprocess.run([cxx, "--version"], check=False, capture_output=True, text=True, env=_plain()).stdout  # noqa: S603
    h = hashlib.blake2b(digest_size=8)
    for text in (_source("arena.cpp"), _source("build.py"), torch.__version__, torch.version.git_version, version):
        h.update(str(text).encode() + b"\0")
    return h.hexdigest()
