"""Put compiled libraries into the wheel, mark it for the system that they need, and make README's links absolute.

With COOPSIM_COMPILED=FOLDER (made by `.ci/compile.py`) the wheel has these libraries for one torch and is for Linux on
x86-64, with the glibc that they ask for. Without it, the wheel is for any system, and compiles them at first use.
On GitHub, links of README.md to files of the repository become absolute, as PyPI shows that page without the files.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)")


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


class AbsoluteLinks(MetadataHookInterface):
    """Sets the description: README.md, with absolute links in a workflow on GitHub, as it is elsewhere."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository, commit = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("GITHUB_SHA")
        if repository and commit:
            base = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
            text = _LINK.sub(lambda m: f"{m[1]}{m[2]}{base}/{'raw' if m[1] else 'blob'}/{commit}/{m[3]}", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _glibc(library: Path) -> tuple[int, int]:
    """Return the newest version of glibc that a library asks for."""
    asked = subprocess.run(["readelf", "-W", "-V", str(library)], check=True, capture_output=True, text=True).stdout
    return max(((int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)", asked)), default=(2, 17))
