"""Make a virtual environment with one version of PyTorch, transformers and Numba, and with coopsim from this checkout.

    python experiments/versions/environment.py FOLDER TORCH [TRANSFORMERS [NUMBA]]

PyTorch's CUDA build comes without the CUDA libraries, and with Triton as its metadata names it; what coopsim needs
comes as constraints.txt has it. An environment that is there and complete is left as it is.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Packages whose versions follow from PyTorch's or transformers', not from constraints.txt.
_FREE = ("torch", "triton", "transformers", "huggingface_hub", "tokenizers", "accelerate", "setuptools", "fsspec")
_OF_NUMBA = ("numba", "llvmlite", "numpy")  #: the same of Numba's, where its version is given
_NEEDED = ("filelock", "fsspec", "jinja2", "networkx", "psutil", "setuptools<81", "sympy", "typing-extensions")


def make(
    folder: Path,
    torch: str,
    transformers: str = "",
    numba: str = "",
    libraries: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Path:
    """Make the environment, and return its Python.

    `libraries` are installed without what they require, `needs` with it. numba: its version, if not that of
    constraints.txt.
    """
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = "\n".join((torch, transformers, *([f"numba=={numba}"] if numba else []), *libraries, *needs))
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run((sys.executable, "-m", "venv", str(folder)), check=True)  # noqa: S603
    constraints = folder / "constraints.txt"
    constraints.write_text(_constraints(_FREE + _OF_NUMBA if numba else _FREE), encoding="utf-8")
    _pip(folder, "--upgrade", "pip>=25.1")
    _pip(folder, "--no-deps", f"torch==={torch}")  # not the local build 2.13.0+cpu
    _pip(folder, "--no-deps", "accelerate", triton(folder), *libraries)
    named = [f"transformers=={transformers}" if transformers else "transformers", *([f"numba=={numba}"] * bool(numba))]
    coopsim = (*("-e", str(ROOT)), "hypothesis", "perfetto", "pytest", "shtab")
    _pip(folder, "--no-warn-conflicts", *coopsim, *named, *_NEEDED, *needs)
    ready.write_text(wanted, encoding="utf-8")
    return python


def triton(folder: Path) -> str:
    """Return the Triton that the installed PyTorch requires, as a requirement."""
    [metadata] = folder.glob("lib/python3*/site-packages/torch-*.dist-info/METADATA")
    found = re.search(r"^Requires-Dist: triton ?\(?([=~]=[0-9.]+)", metadata.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, metadata
    return f"triton{found.group(1)}"


def _constraints(free: Sequence[str]) -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(tuple(f"{name}==" for name in free))) + "\n"


def _pip(folder: Path, *words: str) -> None:
    """Install by the environment's pip, under its own constraints only: the machine's may cap PyTorch's version.

    Modules are compiled when they are imported, which few are: it would be half of the time.
    """
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-compile")
    command = (str(folder / "bin" / "python"), "-m", "pip", *install, *words)
    constraints = {"PIP_CONSTRAINT": str(folder.absolute() / "constraints.txt")}
    subprocess.run(command, check=True, env=os.environ | constraints)  # noqa: S603


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    make(Path(sys.argv[1]), *sys.argv[2:])
