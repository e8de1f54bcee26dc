"""What `fit` says where sizes depend on masks: both bounds."""

from pathlib import Path

import pytest

from coopsim.fitting import Search
from coopsim.fitting.verdict import Fit
from coopsim.run import Script

MIB = 1 << 20
pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]

MASKED = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x = torch.rand(1 << 20, 64, device="cuda")
    model(x[x[:, 0] > 0.5]).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
KEPT = 256 * MIB  #: what a mask keeps at most


def fit(folder: Path, memory_mib: int = 12 << 10, masks: str = "") -> Fit:
    file = folder / "masked.py"
    file.write_text(MASKED)
    script = Script((str(file),), card="rtx-3060", memory_bytes=memory_mib * MIB, masks=masks, quiet=True)
    return Search(script, say=lambda _: None, seconds=30).run()


def test_both_bounds_are_said(tmp_path: Path) -> None:
    """If masks keep nothing it needs the data of two steps and the context; at the upper bound activations, too."""
    found = fit(tmp_path)
    low, high = found.lower_needs_bytes, found.needs_bytes
    assert found.fits
    assert low is not None
    assert 2 * KEPT < low < 3 * KEPT
    assert high > low + KEPT
    assert any(note.startswith("if masks keep nothing, it needs") and note.endswith("and fits") for note in found.notes)
    # What the user says of them they keep, and there is one number.
    for masks, needs in (("none", low), ("all", high)):
        said = fit(tmp_path, masks=masks)
        assert (said.needs_bytes, said.lower_needs_bytes) == (needs, None)


def test_the_verdict_is_that_of_the_upper_bound(tmp_path: Path) -> None:
    """Between the two."""
    found = fit(tmp_path, memory_mib=700)
    assert not found.fits
    assert found.lower_needs_bytes is not None
    assert found.lower_needs_bytes < 700 * MIB
    assert "and fits" in str(found)
