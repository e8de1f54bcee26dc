"""Compile what coopsim would compile at first use, for the installed torch, into a folder for `hatch_build.py`.

    python .ci/compile.py out/compiled && COOPSIM_COMPILED=out/compiled python -m build

Run it where glibc is old (manylinux_2_28): the wheel is marked for the glibc that the libraries ask for.
"""

import os
import subprocess
import sys
from pathlib import Path

from coopsim import phantom
from coopsim.cards import wheel
from coopsim.phantom import build, compilers


def main(out: Path) -> None:
    torch = wheel.find()
    folder = out / compilers.folder(torch.version, torch.cuda).name
    build.compile_into(folder / f"phantom-{build.key(torch)}", torch, build.compiler())
    command = [sys.executable, __file__, str(folder), "extensions"]
    subprocess.run(command, check=True, env=os.environ | phantom.without_gpu())
    for file in sorted(folder.rglob("*.so*")):
        print(f"{file.relative_to(out)}: {file.stat().st_size} bytes")


def extensions(folder: Path) -> None:
    from coopsim.live.arena.library import ARENA
    from coopsim.live.observer import OBSERVER
    from coopsim.record.observe.extension import compiler
    from coopsim.record.observe.interpose.library import INTERPOSE

    for extension in (ARENA, INTERPOSE, OBSERVER):
        extension.compile_to(extension.within(folder), compiler())


if __name__ == "__main__":
    (extensions if sys.argv[2:] else main)(Path(sys.argv[1]))
