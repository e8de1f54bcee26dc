"""The pages that promise to be run are run: files are written, commands called, in order, in an empty folder."""

import os
import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT

BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_add_a_policy(coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = 0
    for language, file, text in BLOCK.findall((ROOT / "docs" / "add-a-policy.md").read_text()):
        if language == "python":
            Path(file).write_text(text)
            continue
        for line in text.splitlines():
            monkeypatch.delenv("COOPSIM_POLICIES", raising=False)
            words = shlex.split(line)
            while "=" in words[0]:
                monkeypatch.setenv(*words.pop(0).split("=", 1))
            assert words.pop(0) == "coopsim"
            answer = coopsim(*words)
            assert answer.code == 0, (line, answer.err)
            commands += 1
    assert commands == 8
    assert "tightest" in answer.out
    assert coopsim("validate", "schedule.parquet", "--trace", "synth:unet:4").code == 0
    assert os.listdir() != []


def test_sweeps_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((_, _, text),) = [b for b in BLOCK.findall((ROOT / "docs" / "maps.md").read_text()) if b[0] == "python"]
    (tmp_path / "script.py").write_text(text)
    found = runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
    assert len(found["table"]) == 2 * 2 * 2
    assert found["found"].refined.any()
    assert {"r.parquet", "m.parquet"} <= set(os.listdir())
