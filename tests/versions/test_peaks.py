"""Peaks of scripts that a physical H100 measured, with the PyTorch that it had: the phantom's, or their cause is named.

`make smoke TORCH=2.11.0` runs a handful, `.venv-2.11.0/bin/pytest tests/versions -m slow` all whose packages are there.
"""

from importlib import metadata

import pytest

from experiments.gpu import peaks
from experiments.gpu.peaks_again import again
from tests.conftest import ROOT

H100 = ROOT / "experiments" / "gpu" / "results" / "nvidia-h100-80gb-hbm3-2026-11-26"
ROWS = {row["name"]: row for row in peaks.load(H100)}
#: Ties by address, a work area of cuFFT, a mixture of experts, grouped queries.
HANDFUL = ["backward_steps", "example_train8", "fit_gpt2", "fit_wide", "fno", "hf_mixtral", "llama_from_scratch"]
#: Measured with other packages than `make smoke` installs, and equal with these.
OTHERWISE = {"moe": "opt_einsum", "timm_resnet": "timm 1.0.22", "timm_swin_distill": "timm 1.0.22"}

pytestmark = [
    pytest.mark.usefixtures("phantom_gpu"),
    pytest.mark.skipif(
        metadata.version("torch").partition("+")[0] != "2.11.0",
        reason="the H100 was measured with torch 2.11.0: make smoke TORCH=2.11.0",
    ),
]


def check(names: list[str], least: int) -> None:
    ran = list(again([ROWS[name] for name in names if name not in OTHERWISE]))
    assert len(ran) >= least
    for row in ran:
        assert peaks.equal(row) or row["causes"], row


def test_a_handful() -> None:
    check(HANDFUL, len(HANDFUL))


@pytest.mark.slow
def test_all() -> None:
    check(list(ROWS), 60)
