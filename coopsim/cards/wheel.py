"""Inspect the installed torch by its files: importing a CUDA build takes seconds, and needs the stand-in libraries."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from coopsim.base.errors import NoCudaTorchError, PhantomError

_INSTALL = "coopsim setup-torch"
ABSENT = f"torch is not installed; install its CUDA build, which needs no GPU here: {_INSTALL}"
_NVIDIA = re.compile(r"lib(?:cu|nv|nccl)")
#: Libraries without symbol versions, by the prefix of their symbols; the first match counts.
_PREFIXES = (
    ("nccl", "libnccl.so"),
    ("nvshmem", "libnvshmem_host.so"),
    ("cuFile", "libcufile.so"),
    ("cusparseLt", "libcusparseLt.so"),
    ("cupti", "libcupti.so"),
    ("cu", "libcuda.so"),
)


@dataclass(frozen=True)
class Wheel:
    """An installed torch: the package's folder, its version, and the CUDA version it was built for ("" for none)."""

    folder: Path
    version: str
    cuda: str

    @property
    def libraries(self) -> Path:
        """The folder of its shared libraries."""
        return self.folder / "lib"

    @property
    def has_real_libraries(self) -> bool:
        """Whether NVIDIA's wheels are installed beside it; torch's RPATH finds them before LD_LIBRARY_PATH."""
        return (self.folder.parent / "nvidia").is_dir()

    def can_be_imported(self) -> bool:
        """Return whether it finds the libraries that it needs, by importing it in a child process (some seconds)."""
        command = [sys.executable, "-c", "import torch"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603

    @property
    def cudnn(self) -> int:
        """The cuDNN version it requires, as cudnnGetVersion returns it (92400 is 9.24.0); if unknown, torch 2.14's."""
        for metadata in self.folder.parent.glob("torch-*.dist-info/METADATA"):
            found = re.search(r"nvidia-cudnn-cu\d+==(\d+)\.(\d+)\.(\d+)", metadata.read_text(encoding="utf-8"))
            if found:
                major, minor, patch = (int(n) for n in found.groups())
                return 10_000 * major + 100 * minor + patch
        return 92_400


def find() -> Wheel:
    """Return the CUDA build of torch that this Python would import.

    Raises PhantomError off Linux, and NoCudaTorchError if torch is absent or was built without CUDA.
    """
    wheel = find_any()
    if not wheel.cuda:
        raise NoCudaTorchError(
            f"torch {wheel.version} is a build without CUDA; install a CUDA build, which needs no GPU: {_INSTALL}"
        )
    return wheel


def find_any() -> Wheel:
    """Return the torch that this Python would import; its `cuda` is "" for a build without CUDA.

    Raises PhantomError off Linux, and NoCudaTorchError if torch is absent.
    """
    if sys.platform != "linux":
        raise PhantomError(f"the phantom GPU needs Linux (this is {sys.platform}): PyTorch's CUDA builds are for it")
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise NoCudaTorchError(ABSENT)
    folder = Path(spec.origin).parent
    said = _assignments(folder / "version.py")
    cuda = said.get("cuda")
    return Wheel(folder, str(said.get("__version__", "unknown")), cuda if isinstance(cuda, str) else "")


def _assignments(file: Path) -> dict[str, object]:
    """Return the constants that a Python file assigns at its top level, by name; {} if there is no file."""
    if not file.exists():
        return {}
    found: dict[str, object] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Assign):
            targets, value = [t for t in node.targets if isinstance(t, ast.Name)], node.value
        else:
            continue
        if isinstance(value, ast.Constant):
            found |= {target.id: value.value for target in targets}
    return found


def imports(libraries: Path) -> dict[str, dict[str, str]]:
    """Return what the shared libraries in a folder import from NVIDIA's: soname → symbol → version ("" if it has none).

    They are read with readelf (GNU binutils, which gcc needs). Raises PhantomError if it cannot be run.
    """
    wanted: set[str] = set()
    undefined: dict[str, str] = {}
    for file in sorted(libraries.glob("*.so")):
        wanted |= {n for n in re.findall(r"NEEDED.*\[([^\]]+)\]", readelf("-d", file)) if _NVIDIA.match(n)}
        for line in readelf("--dyn-syms", file).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[6] == "UND":
                symbol, _, version = fields[7].partition("@")
                undefined.setdefault(symbol, version.lstrip("@"))
    found: dict[str, dict[str, str]] = {soname: {} for soname in sorted(wanted | {"libcuda.so.1"})}
    for symbol, version in sorted(undefined.items()):
        soname = _owner(symbol, version, list(found))
        if soname:
            found[soname][symbol] = version
    return found


def _owner(symbol: str, version: str, sonames: list[str]) -> str | None:
    """Return which of `sonames` a symbol belongs to, by its version or its prefix; None if to none of them."""
    if version.startswith("lib"):
        stem = version
    elif version:
        stem = {"NVSHMEM": "libnvshmem_host.so"}.get(version, "")
    else:
        stem = next((library for prefix, library in _PREFIXES if symbol.startswith(prefix)), "")
    return next((n for n in sonames if stem and (n == stem or n.startswith(stem + "."))), None)


def readelf(option: str, file: Path) -> str:
    """Return readelf's output for an ELF file. Raises PhantomError if it cannot be run, or cannot read the file."""
    try:
        run = subprocess.run(  # noqa: S603
            ["readelf", "-W", option, str(file)],  # noqa: S607
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise PhantomError("readelf not found; install GNU binutils (it comes with gcc)") from None
    except subprocess.CalledProcessError as e:
        raise PhantomError(f"readelf cannot read {file.name}: {e.stderr.strip()}") from None
    return run.stdout
