"""A trace performed on PyTorch's own allocator gives the peaks of the run that it was recorded from, to the byte."""

import tomllib
from pathlib import Path

import pytest

from coopsim.cards import wheel
from coopsim.record.capture import Job, capture
from coopsim.trace import load
from tests.conftest import ROOT

MANIFEST = tomllib.loads((ROOT / "traces" / "MANIFEST.toml").read_text())
PERFORM = """
from coopsim.record.capture.perform import perform
from coopsim.trace import load
peaks = perform(load({path!r}))
answer([peaks.reserved_bytes, peaks.allocated_bytes])
"""


def check(path: Path, on_phantom) -> None:
    header = load(path).header
    ours = on_phantom(PERFORM.format(path=str(path)))
    assert ours == [header["peak_reserved_bytes"], header["peak_allocated_bytes"]]
    assert ours[0] > sum(total for total, _ in header["memory_at_start"])  # the steps themselves made it grow
    assert header["frees_as_allocator"] >= 0.995 * header["frees"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-2", {"batch": 2, "optimizer": "adamw", "amp": "bf16", "attention": "sdpa"}),
        ("spos", {"steps": 3}),
    ],
)
@pytest.mark.usefixtures("phantom_gpu")
def test_two_small_runs(model: str, options: dict[str, object], tmp_path: Path, on_phantom) -> None:
    capture(Job(model, tmp_path / "t.parquet", **options))
    header = load(tmp_path / "t.parquet").header
    assert {key: header.get(key) for key in ("amp", "attention")} == {k: options.get(k) for k in ("amp", "attention")}
    check(tmp_path / "t.parquet", on_phantom)


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(MANIFEST))
def test_the_eight(file: str, on_phantom) -> None:
    """The committed traces, where torch is the one that they were recorded with: allocators differ in their choices."""
    if wheel.find().version != MANIFEST[file]["torch"]:
        pytest.skip(f"recorded with torch {MANIFEST[file]['torch']}, here is {wheel.find().version}")
    check(ROOT / "traces" / file, on_phantom)


def test_no_layout(on_phantom) -> None:
    text = """
from coopsim.base.errors import CaptureError
from coopsim.record.capture.perform import perform
from coopsim.trace.synth import make
try:
    perform(make("synth:chain:5"))
except CaptureError as error:
    answer(str(error))
"""
    assert "does not say how memory was laid out at its start" in on_phantom(text)
