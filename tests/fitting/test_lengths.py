"""`fit` with a file of lengths: the verdict and the remedies are those of the long run, of which some steps run."""

from dataclasses import replace
from pathlib import Path

import pytest

import coopsim
from coopsim.fitting import apply
from coopsim.run import Script, run
from tests.run.long_runs import PAGES

pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]
STEPS, CONTEXT = 300, 160 << 20


def test_what_fits_in_all_steps(tmp_path: Path) -> None:
    """40 steps fit, 300 do not; each remedy fits in all 300."""
    file, lengths = tmp_path / "train.py", tmp_path / "lengths.txt"
    file.write_text(PAGES)
    lengths.write_text("".join(f"{8 * (2 + i * 7 % 13 + 15 * (i == 200))}\n" for i in range(STEPS)))
    whole = Script(("python", str(file), str(lengths)), card="rtx-3060", quiet=True)
    short = replace(whole, steps=40)
    peaks = [run(it).peak_allocated_bytes for it in (short, whole)]
    memory = CONTEXT + sum(peaks) // 2
    assert run(replace(short, memory_bytes=memory)).outcome == "ok"
    assert run(replace(whole, memory_bytes=memory)).outcome == "oom"
    found = coopsim.fit(whole.command, gpu="rtx-3060", memory=f"{memory}B", steps=40, lengths=lengths, seconds=240)
    assert not found.fits
    kinds = {remedy.kind for remedy in found.remedies if remedy.verified}
    assert {"checkpointing", "micro-batches"} <= kinds
    assert found.needs_bytes == pytest.approx(CONTEXT + peaks[1], rel=0.05)
    for remedy in found.remedies:
        if remedy.kind in ("checkpointing", "micro-batches", "precision"):
            assert apply(replace(whole, memory_bytes=memory), remedy).outcome == "ok", remedy.text
