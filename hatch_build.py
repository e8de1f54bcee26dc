"""Put compiled libraries into the wheel, and mark it for the system that they need.

With COOPSIM_COMPILED=FOLDER (made by `.ci/compile.py`) the wheel has these libraries for one torch and is for Linux on
x86-64, with the glibc that they ask for. Without it, the wheel is for any system, and compiles them at first use.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledLibraries(BuildHookInterface):
    """Adds the folder and the tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = os.environ.get("COOPSIM_COMPILED")
        if not folder:
            return
        files = sorted(file for file in Path(folder).rglob("*.so*") if file.is_file())
        if not files:
            raise ValueError(f"COOPSIM_COMPILED={folder}: no library there")
        major, minor = max(map(_glibc, files))
        build_data["force_include"][str(Path(folder).resolve())] = "coopsim/compiled"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_x86_64"


def _glibc(library: Path) -> tuple[int, int]:
    """Return the newest version of glibc that a library asks for."""
    asked = subprocess.run(["readelf", "-W", "-V", str(library)], check=True, capture_output=True, text=True).stdout
    return max(((int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)", asked)), default=(2, 17))
