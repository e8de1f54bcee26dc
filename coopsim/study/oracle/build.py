"""Build the oracle: libc10_cuda.so of a torch wheel on a runtime of our own, with a driver. Once a version, on demand.

A version that is installed is taken from there. Another is fetched with pip (some hundred MB, of which 2 MB are kept)
if the caller says so, or $COOPSIM_ORACLE_CACHE names a folder for what is fetched and built.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coopsim.base import alloc_conf
from coopsim.base.files import cache_folder
from coopsim.base.types import CoopsimError
from coopsim.cards import wheel
from coopsim.phantom import PhantomError
from coopsim.phantom.build import compiler
from coopsim.simulate.allocators.caching import version as simulated

CSRC = Path(__file__).parent / "csrc"
VERSIONS = tuple(simulated.VERSIONS)
_LIBRARIES = ("libc10.so", "libc10_cuda.so")


@dataclass(frozen=True)
class Oracle:
    """The real allocator of one torch version."""

    version: str
    folder: Path

    def ask(self, conf: str, total: int, requests: list[str]) -> list[str]:
        """What it answers, a line an item; one line `refused ...` if it takes the settings for wrong."""
        run = self._run(conf, total, requests)
        lines = run.stdout.splitlines()
        if run.returncode:
            refused = [line for line in run.stderr.splitlines() if line.startswith("refused ") or "what():" in line]
            lines.append(refused[-1] if refused else f"died {run.returncode} {run.stderr[-300:]}")
        return lines

    def seconds(self, conf: str, total: int, requests: list[str]) -> float:
        """How long it takes for all of them, without the output."""
        said = self._run(conf, total, requests, "--quiet").stderr
        return float(said.split("seconds ")[1].split()[0])

    def _run(self, conf: str, total: int, requests: list[str], *options: str) -> "subprocess.CompletedProcess[str]":
        env = with_settings(os.environ, conf)
        env |= {"ORACLE_TOTAL": str(total), "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC": "0"}
        return subprocess.run(  # noqa: S603
            [self.folder / "driver", *options],
            input="\n".join(requests) + "\n",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )


def with_settings(environment: Mapping[str, str], conf: str) -> dict[str, str]:
    """An environment in which PyTorch's allocator has these settings, as PYTORCH_CUDA_ALLOC_CONF, and no others."""
    gone = (*alloc_conf.EVERY, "PYTORCH_NO_CUDA_MEMORY_CACHING")
    kept = {name: value for name, value in environment.items() if name not in gone}
    return kept | ({alloc_conf.VARIABLE: conf} if conf else {})


class OracleError(CoopsimError):
    """This version cannot be had here; the message says why."""


def oracle(version: str, *, fetch: bool = False) -> Oracle:
    """The oracle of that version, built now if it is not there yet, of a wheel that is fetched if allowed.

    Raises OracleError.
    """
    h = hashlib.blake2b(digest_size=8)
    for file in (Path(__file__), *sorted(CSRC.rglob("*.*"))):
        h.update(file.read_bytes())
    folder = _home() / f"oracle-{version}-{h.hexdigest()}"
    if not (folder / "driver").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".oracle-"))
        try:
            _build(_package(version, fetch=fetch), scratch)
            if not folder.exists():
                scratch.rename(folder)
        except PhantomError as e:
            raise OracleError(str(e)) from None
        except FileNotFoundError as e:
            raise OracleError(f"the allocator of torch {version} cannot be built: {e.filename} is not here") from None
        except subprocess.CalledProcessError as e:
            raise OracleError(f"the allocator of torch {version} cannot be built: {_first(e.stderr)}") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return Oracle(version, folder)


def available() -> list[str]:
    """The versions that can be had without a download, the installed one last."""
    installed = _installed()
    found = [v for v in VERSIONS if v != installed and (_home() / f"torch-{v}" / "torch" / "lib").is_dir()]
    return found + ([installed] if installed else [])


def _home() -> Path:
    return Path(os.environ.get("COOPSIM_ORACLE_CACHE") or cache_folder())


def _installed() -> str:
    try:
        return wheel.find().version.partition("+")[0]
    except PhantomError:
        return ""


def _package(version: str, *, fetch: bool) -> Path:
    """The folder `torch` of that version, with two libraries and the headers at least."""
    if version == _installed():
        return wheel.find().folder
    home = _home() / f"torch-{version}"
    if not (home / "torch" / "lib" / _LIBRARIES[-1]).exists():
        if not fetch and not os.environ.get("COOPSIM_ORACLE_CACHE"):
            raise OracleError(f"torch {version} is not installed; name a folder in COOPSIM_ORACLE_CACHE to fetch it")
        _download(version, home)
    return home / "torch"


def _download(version: str, home: Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--dest", folder]
        try:
            command = [*pip, f"torch==={version}"]  # no build of another name, as 2.13.0+cpu
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        except subprocess.CalledProcessError as e:
            raise OracleError(f"torch {version} cannot be fetched: {_first(e.stderr)[:200]}") from None
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as archive:
            wanted = tuple(f"torch/lib/{name}" for name in _LIBRARIES)
            headers = ("torch/include/c10/", "torch/include/torch/headeronly/", "torch/version.py")
            archive.extractall(home, [n for n in archive.namelist() if n in wanted or n.startswith(headers)])


def _build(torch: Path, out: Path) -> None:
    for name in _LIBRARIES:
        shutil.copy(torch / "lib" / name, out / name)
    wanted = wheel.imports(out)
    runtime = next(name for name in wanted if name.startswith("libcudart.so"))
    cuda = f"-DCUDA_VERSION={runtime.removeprefix('libcudart.so.')}000"
    (out / "runtime.map").write_text(f"{runtime} {{ global: cu*; oracle_*; local: *; }};\n")
    c = [compiler(), "-O2", "-fPIC", "-w"]
    _run(*c, "-c", CSRC / "runtime.c", "-o", out / "runtime.o")
    table = wheel.readelf("--syms", out / "runtime.o")
    have = {f[7] for f in (line.split() for line in table.splitlines()) if len(f) == 8 and f[6] != "UND"}
    missing = sorted(set(wanted[runtime]) - have)  # nothing that a request comes to
    (out / "stubs.c").write_text("".join(f"int {name}(void) {{ return 801; }}\n" for name in missing))
    script = f"-Wl,--version-script={out / 'runtime.map'}"
    _run(*c, "-shared", out / "runtime.o", out / "stubs.c", f"-Wl,-soname,{runtime}", script, "-o", out / runtime)
    (out / "driver.c").write_text("")
    here, kept = [f"-L{out}", "-Wl,-rpath,$ORIGIN"], ["-Wl,--no-as-needed"]
    driver = "libcuda.so.1"  # torch 2.6 opens it by name and finds the functions in the runtime behind it
    _run(*c, "-shared", out / "driver.c", f"-Wl,-soname,{driver}", *here, *kept, f"-l:{runtime}", "-o", out / driver)
    old = "torchCheckFailEPKcS2_jRKSs" in wheel.readelf("--dyn-syms", out / _LIBRARIES[0])  # strings as before C++11
    _run(
        *("g++", "-std=c++20", "-O1", "-w", cuda, f"-D_GLIBCXX_USE_CXX11_ABI={int(not old)}"),
        *("-I", torch / "include", "-I", CSRC / "include", CSRC / "driver.cpp", "-o", out / "driver"),
        *(*here, *kept, *(f"-l:{name}" for name in (*reversed(_LIBRARIES), runtime, driver))),
    )


def _run(*command: object) -> None:
    subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)  # noqa: S603


def _first(said: str) -> str:
    """The line of a tool's output that says what is wrong."""
    lines = said.strip().splitlines() or ["no reason given"]
    return next((line for line in lines if "error" in line.lower()), lines[-1]).strip()
