"""The compiled core: its cache notices edits, and what it costs to start."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coopsim.simulate.kernel import jit, sources
from coopsim.trace import Trace
from coopsim.trace.schedule import load
from tests.conftest import BERT, ROOT


def test_an_edit_in_any_kernel_file_gives_another_cache(tmp_path: Path) -> None:
    copy = tmp_path / "coopsim"
    shutil.copytree(ROOT / "coopsim", copy, ignore=shutil.ignore_patterns("__pycache__"))

    def hashes_now() -> list[str]:
        code = "from coopsim.simulate.kernel import sources; print(sources.of_kernels(), sources.of_replays())"
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

    here = [sources.of_kernels(), sources.of_replays()]
    assert hashes_now() == here
    assert jit.CACHE.name == f"kernels-{here[0]}"
    for name in (
        "simulate/replay/score.py",
        "simulate/allocators/arena.py",
        "simulate/kernel/state.py",
        "base/types.py",
        "simulate/allocators/caching/state.py",
    ):
        file = copy / name
        file.write_text(file.read_text() + "\n# edited\n")
        assert not set(hashes_now()) & set(here)
        shutil.copy(ROOT / "coopsim" / name, file)
    for name in ("simulate/allocators/serving/gmlake.py", "simulate/replay/result.py"):  # no kernels, but replays
        file = copy / name
        file.write_text(file.read_text() + "\n# edited\n")
        kernels, replays = hashes_now()
        assert kernels == here[0]
        assert replays != here[1]
        shutil.copy(ROOT / "coopsim" / name, file)
    assert hashes_now() == here


def test_the_hash_of_kernels_is_of_all_that_they_import() -> None:
    """Against Python's own parser: every import of a hashed file, in these packages, is of a hashed file."""
    texts = sources.texts()
    hashed = sources.files_of_kernels(texts)
    wanted = {"simulate/replay/score.py", "simulate/packing/exact.py", "simulate/kernel/compiler.py"}
    assert wanted <= hashed < texts.keys()
    for name in hashed:
        for node in ast.walk(ast.parse(texts[name])):
            assert not (isinstance(node, ast.Import) and any(a.name.startswith("coopsim") for a in node.names)), name
            if isinstance(node, ast.ImportFrom):
                assert not node.level, name
                path = (node.module or "").removeprefix("coopsim.").replace(".", "/")
                wanted = {f"{path}.py", f"{path}/__init__.py", *(f"{path}/{alias.name}.py" for alias in node.names)}
                assert wanted & texts.keys() <= hashed, name


MINE = """
from coopsim.simulate.kernel.jit import kernel
@kernel
def double(x: int) -> int:
    return 2 * x
print(double(21))
"""


def test_a_damaged_cache_and_an_edited_kernel_are_noticed(tmp_path: Path) -> None:
    """Code is loaded only whole, and for the source as it is now, also where a kernel is not the package's."""
    file = tmp_path / "mine.py"

    def answer(text: str) -> str:
        file.write_text(text)
        own = os.environ | {"COOPSIM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, str(file)], env=own, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert answer(MINE) == "42"
    (code,) = (tmp_path / "cache").rglob("*.o")
    whole = code.read_bytes()
    code.write_bytes(whole[:-100])
    assert answer(MINE) == "42"
    assert len(code.read_bytes()) == len(whole)
    assert answer(MINE.replace("2 * x", "3 * x")) == "63"


def test_processes_that_need_a_kernel_at_once_compile_it_once(tmp_path: Path) -> None:
    """Who imports Numba compiles."""
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace("print(double(21))", "import sys; print(double(21), 'numba' in sys.modules)"))
    own = os.environ | {"COOPSIM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(file)]
    both = [subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(process.communicate()[0] for process in both) == ["42 False\n", "42 True\n"]


def test_help_and_replay_import_nothing_heavy() -> None:
    """What start-up time is made of, without a stopwatch: the modules that are loaded."""

    def loaded(code: str) -> set[str]:
        script = f"{code}\nimport sys; print(*sys.modules)"
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        return set(out.splitlines()[-1].split())

    heavy = {"numpy", "numba", "pandas", "pyarrow", "matplotlib", "simpy", "rich", "torch"}
    start = "from coopsim.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert not loaded(start) & (
        heavy | {"dataclasses", "coopsim.base.option"}
    )  # flags are of the verb that is asked for
    args = ["replay", str(BERT), "--policy", "coop", "--budget", "50%", "--json"]
    replay = f"from coopsim.cli import main\nmain({args!r})"
    loaded(replay)  # compiles what is not in the cache
    assert loaded(replay) & heavy == {"numpy", "pyarrow"}


def test_kernels_count_no_references(bert: Trace) -> None:
    """Reference counting made the core ten times slower; the machine code, which is all in one, must have none."""
    from coopsim.simulate.options import ReplayOptions
    from coopsim.simulate.replay import measure

    measure(bert, "coop", 16 << 30, options=ReplayOptions(1))
    files = list(jit.CACHE.glob("simulate.replay.loop.run-*.o"))
    assert files
    for file in files:
        code = file.read_bytes()
        assert b"clock_gettime" in code, "the names of what it calls can be read"
        assert b"NRT_incref" not in code
        assert b"NRT_decref" not in code


#: As if Numba and what it brings could not be imported.
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
from coopsim.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("options", [["--policy", "coop"], ["--policy", "foresight"], ["--allocator", "cuda-caching"]])
def test_without_numba_the_same_code_runs_uncompiled(options: list[str], tmp_path: Path) -> None:
    """The way out if an update of Numba breaks the compiler (CONTRIBUTING.md): every action is the same."""
    asked = ["replay", "synth:unet", "--policy", "dtr-oneflow", *options, "--budget", "80%", "--steps", "2"]
    out = [tmp_path / name for name in ("compiled.parquet", "interpreted.parquet")]
    compiled = [sys.executable, "-m", "coopsim", *asked, "-o", str(out[0])]
    interpreted = [sys.executable, "-c", WITHOUT_NUMBA, *asked, "-o", str(out[1])]
    path = {"PYTHONPATH": str(ROOT)}
    subprocess.run(compiled, env=os.environ | path, check=True, capture_output=True)
    subprocess.run(interpreted, env=os.environ | path | {"NUMBA_DISABLE_JIT": "1"}, check=True, capture_output=True)
    one, other = (load(file) for file in out)
    assert len(one.action) == len(other.action) > 50
    for name in ("action", "op", "storage", "version", "address"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_without_numba_and_the_switch_there_is_no_replay(tmp_path: Path) -> None:
    """So the test above is of the switch: with an empty cache the compiler would be needed."""
    asked = ["replay", "synth:unet", "--policy", "coop", "--budget", "80%", "--steps", "2"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "COOPSIM_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA, *asked], env=env, capture_output=True, text=True)
    assert run.returncode
    assert "llvmlite" in run.stderr


@pytest.mark.parametrize("name", jit._LARGE.values())
def test_what_is_announced_is_a_kernel(name: str) -> None:
    """By its name in the cache, `is_cold` finds it."""
    module, _, function = name.rpartition(".")
    assert isinstance(getattr(importlib.import_module(f"coopsim.{module}"), function), jit.Kernel)
