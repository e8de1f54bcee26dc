"""Kernels by Numba's ordinary means, where it is not built inside as coopsim knows it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopsim.simulate.kernel.call import where_present
from coopsim.simulate.kernel.jit import inlined, kernel, now_ns
from coopsim.simulate.kernel.reference import Bundle
from coopsim.trace.schedule import load
from tests.conftest import ROOT
from tests.simulate.kernel.things import Things, shift

#: As if a class of Numba's inside had another name.
OTHER = """
import sys
import numba
from numba.core import codegen
del codegen.JITCodeLibrary
"""


class Outer(Bundle):
    """A bundle with another one, or without."""

    things: Any
    extra: Any


@inlined
def _double(x: int) -> int:
    return 2 * x


@kernel
def _sum(S: Outer) -> int:
    return S.extra[0] + S.extra[1]


def _never(_S: Outer) -> int:
    return 0


_sum_if_there = where_present("extra", _sum, _never)


@kernel
def both(S: Outer, more: bool) -> tuple[int, float, bool]:
    """Use what kernels use: other kernels, bundles in bundles, parts that may be absent, the clock."""
    started = now_ns()
    total = shift(S.things) + (_sum_if_there(S) if more else 0)
    return _double(total), 0.5 * total, now_ns() >= started


def test_the_parts_of_kernels() -> None:
    """Run in a process of its own by the next test, by itself it runs what is compiled as ever."""
    for extra in (np.arange(2) + 3, None):
        things = Things(np.arange(3), np.zeros((2, 2), np.int64), np.ones((1, 2, 3), np.int64))
        expected = 6 + (7 if extra is not None else 0)
        assert both(Outer(things, extra), extra is not None) == (2 * expected, 0.5 * expected, True)
        assert things.line.tolist() == [1, 2, 2]


def run(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", OTHER + code, *arguments], cwd=ROOT, env=os.environ, capture_output=True, text=True
    )


def test_an_unknown_numba_compiles_by_its_ordinary_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COOPSIM_CACHE_DIR", str(tmp_path))
    done = run("import tests.simulate.kernel.test_ordinary as it\nit.test_the_parts_of_kernels()")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ordinary means") == 1
    assert not list(tmp_path.rglob("*.o"))


@pytest.mark.slow
def test_its_replays_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["replay", "synth:unet", "--policy", "coop", "--budget", "80%", "--steps", "2", "-o"]
    subprocess.run([sys.executable, "-m", "coopsim", *asked, str(tmp_path / "known.parquet")], check=True, cwd=ROOT)
    monkeypatch.setenv("COOPSIM_CACHE_DIR", str(tmp_path))
    code = "from coopsim.cli import main\nsys.exit(main(sys.argv[1:]))"
    done = run(code, *asked, str(tmp_path / "other.parquet"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ordinary means") == 1
    assert load(tmp_path / "known.parquet").rows() == load(tmp_path / "other.parquet").rows()
