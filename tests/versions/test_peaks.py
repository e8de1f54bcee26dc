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
#: Ties by address, workspaces of cuDNN, kept gradients, a mixture of experts, a frozen model, attention in a GPT.
HANDFUL = ["backward_steps", "diffusers_text_to_image", "fit_wide", "gru_seq2seq", "hf_mixtral", "nanogpt", "pyg_sage"]

pytestmark = [
    pytest.mark.usefixtures("phantom_gpu"),
    pytest.mark.skipif(
        metadata.version("torch").partition("+")[0] != "2.11.0",
        reason="the H100 was measured with torch 2.11.0: make smoke TORCH=2.11.0",
    ),
]


def check(names: list[str], least: int) -> None:
    ran = 0
    for row in again([ROWS[name] for name in names]):
        ran += 1
        assert peaks.equal(row) or row["causes"], row
        same = all(row[f"phantom_{kind}"] == ROWS[row["name"]][f"phantom_{kind}"] for kind in peaks.KINDS)
        assert same or "data" in row["causes"], (row, ROWS[row["name"]])
    assert ran >= least


def test_a_handful() -> None:
    check(HANDFUL, 4)


@pytest.mark.slow
def test_all() -> None:
    check(list(ROWS), 60)
