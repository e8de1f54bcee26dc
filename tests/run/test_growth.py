"""Scripts whose memory grows from step to step, and others that look alike: the verdict, the variable, its line."""

from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.run import Report
from coopsim.run.records_memory import GrowingStorages, Growth, Holder
from tests.run import leaks, more_leaks
from tests.run.command import report_of_text
from tests.run.leaks import HEAD

PAIRS = leaks.PAIRS | more_leaks.PAIRS
ON_THE_HOST = ("loss in a total", "a moving average of outputs")  # graphs that save nothing
QUICK = "outputs in a list"
pytestmark = pytest.mark.usefixtures("phantom_gpu")
NAMES = [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PAIRS]


@pytest.mark.parametrize("name", NAMES)
def test_a_leak_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    text = HEAD + PAIRS[name].leaks
    line = 1 + next(i for i, line in enumerate(text.splitlines()) if "# here" in line)
    found = report_of_text(tmp_path, text)["growth"]
    first = found["kept_in"][0]
    assert (first["name"], first["place"]) == (PAIRS[name].name, f"train.py:{line}")
    assert first["tensors"] or first["bytes"] or first["nodes"]
    assert bool(found["bytes_per_step"]) == (name not in ON_THE_HOST)
    if found["bytes_per_step"]:
        assert found["held"][0]["place"]


@pytest.mark.parametrize("name", NAMES)
def test_what_looks_like_a_leak_is_none(name: str, tmp_path: Path) -> None:
    assert report_of_text(tmp_path, HEAD + PAIRS[name].clean)["growth"] is None


@pytest.mark.slow
def test_a_longer_input_is_no_growth(tmp_path: Path) -> None:
    """Memory runs out in step 5, after the result of step 4, which was longer than those before, has been dropped."""
    text = HEAD + (
        "for rows in (1024, 1024, 1024, 131072, 524288):\n"
        "    out = None\n    out = model(torch.randn(rows, 256, device='cuda'))\n    train(out.square().mean())\n"
    )
    found = report_of_text(tmp_path, text, "--memory", "2GiB")
    assert (found["outcome"], found["steps"], found["growth"]) == ("oom", 4, None)


@pytest.mark.slow
def test_growth_until_memory_runs_out(tmp_path: Path) -> None:
    """A tensor of 200 MiB per step: seen when there is no room for another."""
    text = HEAD + (
        "kept = []\nwhile True:\n    train(model(data()).square().mean())\n"
        "    kept.append(torch.empty(200 << 20, dtype=torch.uint8, device='cuda'))\n"
    )
    found = report_of_text(tmp_path, text, "--memory", "1500MiB")
    assert found["outcome"] == "oom"
    assert found["growth"]["bytes_per_step"] == 200 << 20
    assert found["growth"]["kept_in"][0]["name"] == "kept"


@pytest.mark.slow
def test_four_steps_are_too_few(tmp_path: Path) -> None:
    """The batch of a loop that fetches the next one early: sizes round differently from step to step."""
    text = HEAD + (
        "kept = []\nfor _ in range(STEPS):\n    train(model(data()).square().mean())\n"
        "    kept.append(torch.empty(3 << 20, dtype=torch.uint8, device='cuda'))\n"
    )
    found = [report_of_text(tmp_path, text.replace("STEPS", str(n)))["growth"] for n in (4, 5, 6)]
    assert [growth is not None for growth in found] == [False, False, True]


def test_what_is_printed() -> None:
    held = GrowingStorages("aten.mm.default", "net.0", "train.py:9", 1 << 20)
    grown = Growth(3, 13, 1 << 20, (held,), (Holder("outs", "list", "train.py:12", 9, 9 << 20, 0),))
    numbers = dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes"), 1)
    report = Report(
        command=["python", "train.py"], gpu="rtx-3060", memory_bytes=1 << 30, outcome="ok", steps=13, **numbers,
        peak_device_bytes=1 << 29, processes=1, growth=grown,
    )  # fmt: skip
    once = replace(report, peak_allocated_bytes=300 << 20, steady_peak_allocated_bytes=100 << 20)
    assert (report.full_after(1 << 30), once.full_after(1 << 30), once.full_after(1 << 20)) == (525, 725, None)
    assert grown.rows(report.full_after(report.memory_bytes)) == [
        ("grows", "1 MiB per step from step 3 to 13; at that rate the card is full after some 525 steps"),
        ("", "     1 MiB  by aten.mm.default in net.0 at train.py:9"),
        ("kept by", "outs (list) at train.py:12: 9 tensors of earlier steps, 9 MiB"),
    ]
