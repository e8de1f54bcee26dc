"""The comparison with readings of compiled passes on a real card: by hand, and, where the readings are, itself.

COOPSIM_COMPILED_PEAKS names a file of readings (experiments/compiled/peaks.py has its columns).
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from coopsim.base.types import CoopsimError
from tests.conftest import ROOT

HERE = ROOT / "experiments" / "compiled"
READINGS = os.environ.get("COOPSIM_COMPILED_PEAKS")
HEADER = "model,scale,backend,activation_memory_budget,resident_bytes,peak_allocated_bytes\n"


@pytest.fixture
def peaks(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(HERE))
    yield importlib.import_module("peaks")
    del sys.modules["peaks"]


def test_readings_of_one_process_are_taken_in_one(
    peaks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "truth.csv"
    lines = ["llama,4,aot_eager,0.15,1000,2000", "llama,4,aot_eager,0.05,1000,4000", "llama,8,eager,1.0,1000,9000"]
    file.write_text(HEADER + "\n".join(lines) + "\n")
    taken = []

    def child(reading: object) -> dict[float, dict[str, object]]:
        taken.append(reading.series)
        return {budget: {"resident_bytes": 1000, "peak_allocated_bytes": [1, 4000, 4000]} for budget in reading.series}

    monkeypatch.setattr(peaks, "_child", child)
    table = peaks.rows(peaks.take(peaks.readings(file)))
    assert taken == [(0.05, 0.1, 0.15), (1.0,)]
    assert [row["peak_off_bytes"] for row in table] == [0, 2000, -5000]
    assert [row["peak_off_percent"] for row in table] == [0, 100, -55.556]
    assert {row["resident_off_bytes"] for row in table} == {0}


@pytest.mark.parametrize("text", ["model,scale\nllama,4\n", HEADER + "llama,four,aot_eager,0.1,1,2\n"])
def test_no_readings(peaks: ModuleType, text: str, tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text(text)
    with pytest.raises(CoopsimError, match=r"truth\.csv: no table of readings: "):
        peaks.readings(tmp_path / "truth.csv")


@pytest.mark.slow
@pytest.mark.skipif(not READINGS, reason="COOPSIM_COMPILED_PEAKS names no readings")
def test_peaks_are_those_of_the_card() -> None:
    run = subprocess.run([sys.executable, HERE / "peaks.py", READINGS, "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    table = json.loads(run.stdout)["readings"]
    assert {row["resident_off_bytes"] for row in table} == {0}
    assert sum(row["peak_off_bytes"] == 0 for row in table) >= 14
    assert max(abs(row["peak_off_percent"]) for row in table) <= 0.2
