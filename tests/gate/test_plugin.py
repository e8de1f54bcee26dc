"""Tests that are marked run on the phantom GPU, and fail by what they take."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """\
import pytest


@pytest.fixture
def width():
    return 256


@pytest.mark.gpu_peak("rtx-3060", "1GiB")
def test_small(width):
    import torch

    torch.nn.Linear(width, width).cuda()(torch.randn(64, width, device="cuda")).sum().backward()


@pytest.mark.gpu_peak("rtx-3060", "200MiB")
def test_large():
    import torch

    x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    assert x.is_cuda


@pytest.mark.gpu_peak("rtx-3060")
def test_wrong():
    import torch

    assert torch.zeros(3, device="cuda").shape == (4,)


@pytest.mark.gpu_peak("no-such-card")
def test_no_card():
    pass


def test_plain():
    pass
"""


pytestmark = pytest.mark.usefixtures("phantom_gpu")


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of pytest in a folder."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--gpu-peaks", "peaks.json", *options]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return found.returncode, found.stdout


def test_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_peaks.py").write_text(TESTS)
    code, out = run(tmp_path, "--gpu-peaks-update")
    assert code == 1
    assert "2 passed, 3 failed" in out or "3 failed, 2 passed" in out
    assert "more than 200 MiB" in out
    assert "test_peaks.py:20: x = torch.empty(100 << 20" in out
    assert "gpu_peak: the test fails there, too" in out
    assert "unknown" in out
    runs = json.loads((tmp_path / "peaks.json").read_text())["runs"]
    assert sorted(runs) == ["test_peaks.py::test_large", "test_peaks.py::test_small"]


@pytest.mark.slow
def test_a_baseline_of_tests(tmp_path: Path) -> None:
    """How peaks are compared with one, test_check.py tests."""
    (tmp_path / "test_peaks.py").write_text(TESTS)
    assert run(tmp_path, "--gpu-peaks-update", "-k", "small")[0] == 0
    assert run(tmp_path, "-k", "small or plain")[0] == 0
    (tmp_path / "test_peaks.py").write_text(TESTS.replace("return 256", "return 260"))
    code, out = run(tmp_path, "-k", "small")
    assert code == 1
    assert "of the baseline" in out
