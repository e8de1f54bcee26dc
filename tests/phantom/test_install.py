"""`coopsim setup-torch`: what it installs, and what it says where it cannot, without installing anything."""

import importlib.metadata
from typing import Any

import pytest

from coopsim.base.errors import NoCudaTorchError
from coopsim.cards import wheel
from coopsim.phantom import build, compilers, install


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have run, in an environment without torch until the first of them."""
    commands: list[list[str]] = []

    def find() -> wheel.Wheel:
        if not commands:
            raise NoCudaTorchError("torch is not installed")
        return wheel.Wheel(wheel.Path("/x/torch"), "2.14.1+cu130", "13.0")

    monkeypatch.setattr(install, "_run", commands.append)
    monkeypatch.setattr(wheel, "find", find)
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda name: "pip" if name == "pip" else None)
    return commands


def test_it_leaves_out_the_libraries(coopsim: Any, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [
        "sympy>=1.13",
        "triton~=3.8.0; python_version < '3.15'",
        "nvidia-nccl-cu13==2",
        "cuda-bindings<14",
        "x; extra == 'x'",
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: wanted)
    found = coopsim("setup-torch")
    assert found.code == 0
    assert ran[0][-2:] == ["--no-deps", "torch==2.14.1"]
    assert ran[1][-2:] == wanted[:2]
    said = found.err.splitlines()
    assert "0.8 GB to download" in said[0]  # before anything is installed
    assert "torch 2.14.1+cu130 (CUDA 13.0) is installed" in said[1]
    absent = ["sympy", "filelock>=3"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [*absent, "x; python_version < '3'"])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1" if name not in absent else _absent())
    assert "installing what it requires: sympy" in coopsim("setup-torch").err  # an interruption came before
    assert ran[2][-1] == "sympy"
    absent.clear()
    assert "nothing to do" in coopsim("setup-torch").err
    assert "nothing to do" in coopsim("setup-torch", "2.14.1").err
    other = coopsim("setup-torch", "2.14")
    assert (other.code, other.err.count("\n")) == (0, 1)
    other = coopsim("setup-torch", "2.1")
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert "torch 2.14.1+cu130 is here, not 2.1;" in other.err
    assert len(ran) == 3


def _absent() -> str:
    raise importlib.metadata.PackageNotFoundError


@pytest.mark.parametrize("version", ["", "nonsense", "-2", "2.14.1 --pre", "2.14.1;x"])
def test_a_version_that_is_none(coopsim: Any, ran: list[list[str]], version: str) -> None:
    found = coopsim("setup-torch", "--", version)
    assert (found.code, found.err.count("\n"), ran) == (2, 1, [])
    assert "is not a version" in found.err


def test_without_an_installer(coopsim: Any, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(install.shutil, "which", lambda _: None)
    found = coopsim("setup-torch")
    assert (found.code, len(found.err.splitlines())) == (2, 1)
    assert "neither pip nor uv" in found.err


@pytest.mark.usefixtures("phantom_gpu")
def test_a_releases_libraries_need_no_compiler(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build.libraries()
    monkeypatch.setattr(compilers, "folder", lambda *_: tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler")
    folder = tmp_path / f"phantom-{build.key(wheel.find())}"
    folder.symlink_to(made)
    assert build.libraries() == folder
