"""A script that keeps more at each step fits for so many steps only."""

from pathlib import Path

import pytest

from coopsim.fitting import Search
from coopsim.run import Script

pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]
MIB = 1 << 20
KEEPS = """
import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for _ in range(6):
    kept.append(torch.empty(24 << 20, dtype=torch.uint8, device="cuda"))
    model(torch.ones(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("grows", [True, False])
def test_growth(grows: bool, tmp_path: Path) -> None:
    """A thousand MiB above the context have room for about 40 times 24 MiB."""
    file = tmp_path / "train.py"
    file.write_text(KEEPS if grows else KEEPS.replace("kept.append", "print"))
    found = Search(Script((str(file),), card="rtx-3060", memory_bytes=1160 * MIB, quiet=True), seconds=60).run()
    assert found.fits
    assert (found.full_after_steps is not None) == grows
    said = str(found)
    if grows:
        assert 35 < (found.full_after_steps or 0) < 45
        assert said.startswith(f"Fits for some {found.full_after_steps} steps only: needs")
        assert "memory grows by 24 MiB per step" in said
    else:
        assert said.startswith("Fits: needs")
