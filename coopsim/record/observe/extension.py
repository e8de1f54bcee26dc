"""Compile coopsim's C++ extensions for the installed torch, once, into the user's cache folder."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import torch

from coopsim.base.files import cache_folder
from coopsim.phantom import compilers

_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-shared", "-w"]


class NoExtensionError(Exception):
    """The extension cannot be compiled on this machine; the message says why, in one line."""


@dataclass(frozen=True)
class Extension:
    """A shared library compiled from C++ files of one package.

    package: the Python package with the files. sources: their names; the last one is compiled and includes the others.
    libraries: flags of the linker. headers: returns generated headers, text by file name, given torch's include folder.
    """

    name: str
    package: str
    sources: Sequence[str]
    libraries: Sequence[str]
    headers: Callable[[Path], dict[str, str]] = lambda _: {}

    def file(self) -> Path:
        """Return the path of the compiled library: a release's own, or else the cache's, compiled if it has none.

        Raises NoExtensionError if it must be compiled and there is no C++ compiler, or if the code does not compile
        with this torch's headers.
        """
        shipped = self.within(compilers.folder(torch.__version__, torch.version.cuda or ""))
        if shipped.is_file():
            return shipped
        cxx = compiler()
        asked = subprocess.run([cxx, "--version"], check=False, capture_output=True, text=True, env=_plain())  # noqa: S603
        made = self.within(cache_folder(), asked.stdout)
        if not made.is_file():
            self.compile_to(made, cxx)
        return made

    def within(self, folder: Path, compiler_version: str = "") -> Path:
        """Return the library's place in a folder of compiled files."""
        return folder / f"{self.name}-{self._key(compiler_version)}" / f"libcoopsim-{self.name}.so"

    def compile_to(self, made: Path, cxx: str) -> None:
        """Compile the library, all of it or none. Raises NoExtensionError."""
        torch_folder = Path(torch.__file__).parent
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            texts = self.headers(torch_folder / "include") | {name: self.source(name) for name in self.sources}
            for name, text in texts.items():
                Path(scratch, name).write_text(text, encoding="utf-8")
            out = Path(scratch, made.name)
            abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
            command = [cxx, *_FLAGS, abi, f"-I{torch_folder / 'include'}", f"-I{scratch}"]
            command += [str(Path(scratch, self.sources[-1])), "-o", str(out), f"-L{torch_folder / 'lib'}"]
            command += self.libraries
            run = subprocess.run(command, check=False, capture_output=True, text=True, env=_plain())  # noqa: S603
            if run.returncode:
                raise NoExtensionError(f"{cxx} cannot compile it: {compilers.first_error(run.stderr)}")
            out.rename(made)

    def source(self, name: str) -> str:
        """Return the text of a file of the package, by its name."""
        return resources.files(self.package).joinpath(name).read_text(encoding="utf-8")

    def _key(self, compiler_version: str) -> str:
        """Return a hash of what the library depends on: sources, flags, this module, compiler's and torch's version."""
        h = hashlib.blake2b(digest_size=8)
        how = Path(__file__).read_text(encoding="utf-8")
        headers = self.headers(Path(torch.__file__).parent / "include").values()
        texts = (*map(self.source, self.sources), *self.libraries, *headers, how, torch.__version__)
        for text in (*texts, torch.version.git_version, compiler_version):
            h.update(str(text).encode() + b"\0")
        return h.hexdigest()


def compiler() -> str:
    """Return the C++ compiler: $CXX, or the first of c++, g++, clang++. Raises NoExtensionError if there is none."""
    found = compilers.find("CXX")
    if found is None:
        raise NoExtensionError(compilers.missing("CXX"))
    return found


def _plain() -> dict[str, str]:
    """Return the environment without the variables by which the phantom GPU is loaded into every program."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
