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


@pytest.mark.gpu_peak
def test_bare():
    pass


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
    assert "2 passed, 4 failed" in out or "4 failed, 2 passed" in out
    assert 'gpu_peak: it names no card; write it as @pytest.mark.gpu_peak("rtx-3060", "11GiB")' in out
    assert "more than 200 MiB" in out
    assert "test_peaks.py:20: x = torch.empty(100 << 20" in out
    assert "gpu_peak: the test fails there, too" in out
    assert "unknown" in out
    runs = json.loads((tmp_path / "peaks.json").read_text())["runs"]
    assert sorted(runs) == ["test_peaks.py::test_large", "test_peaks.py::test_small"]


def test_a_baseline_that_cannot_be_read(tmp_path: Path) -> None:
    """It is said once, before any test runs."""
    (tmp_path / "test_peaks.py").write_text(TESTS)
    for options, says in (
        (("peaks.json",), "no such baseline"),
        (("no/peaks.json", "--gpu-peaks-update"), "no such folder"),
    ):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--gpu-peaks", *options]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (found.returncode, len(found.stderr.splitlines())) == (
            pytest.ExitCode.USAGE_ERROR,
            2,
        )  # the last is empty
        assert says in found.stderr


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


MASKED = """\
import pytest


def half_of_them():
    import torch

    x = torch.rand(1 << 20, 64, device="cuda")  # 256 MiB
    return x[x[:, 0] > 0.5]


@pytest.mark.gpu_peak("rtx-3060", "600MiB", masks="all")
def test_all():
    half_of_them()


@pytest.mark.gpu_peak("rtx-3060", "600MiB")
def test_default():
    half_of_them()


@pytest.mark.gpu_peak("rtx-3060", "600MiB", masks="half")
def test_half():
    half_of_them()


@pytest.mark.gpu_peak("rtx-3060", "600MiB", masks="none")
def test_none():
    half_of_them()


@pytest.mark.gpu_peak("rtx-3060", "600MiB", masks="some")
def test_some():
    half_of_them()
"""


@pytest.mark.slow
def test_a_mark_says_what_masks_keep(tmp_path: Path) -> None:
    """256 MiB, and as much of them as a mask keeps; the context takes some 150 MiB more. By default that is all."""
    (tmp_path / "test_masked.py").write_text(MASKED)
    code, out = run(tmp_path, "--gpu-peaks-update", "-rA")
    assert code == 1
    lines = [line.split() for line in out.splitlines() if line.startswith(("PASSED ", "FAILED "))]
    ended = {line[1].partition("::")[2]: line[0] for line in lines}
    failed = dict.fromkeys(("test_all", "test_default", "test_some"), "FAILED")
    assert ended == failed | dict.fromkeys(("test_half", "test_none"), "PASSED")
    assert "unknown masks 'some'" in out
    runs = json.loads((tmp_path / "peaks.json").read_text())["runs"]
    names = "default", "all", "half", "none"
    default, every, half, none = (runs[f"test_masked.py::test_{name}"]["allocated"] for name in names)
    assert default == every
    assert every - half == (128 << 20) + (4 << 20)  # rows, and the places of those
    assert half - none == pytest.approx(every - half, abs=1 << 16)
