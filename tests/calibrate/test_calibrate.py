"""Dry runs of a calibration on the phantom GPU; and where there is no GPU."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from coopsim.calibrate.parts import PARTS
from coopsim.cards import card_file, profiles
from tests.conftest import Answer

COMMAND = [sys.executable, "-m", "coopsim", "calibrate", "-o", "card.json", "--dry-run", "h100-80gb"]


def test_two_parts(coopsim: Any, phantom_gpu: None, tmp_path: Path) -> None:
    out = tmp_path / "card.json"
    answer: Answer = coopsim("calibrate", "-o", out, "--dry-run", "a40", "--parts", "addresses,host", "--by", "me")
    assert answer.code == 0, answer.err
    assert "a dry run" in answer.err
    content = json.loads(out.read_text(encoding="utf-8"))
    assert list(content) == ["card_version", "phantom", "card", "measured", "addresses", "host_ns_per_op"]
    assert content["card"] == {"profile": "a40", "memory_mib": profiles.get("a40").memory_mib}
    assert len(content["addresses"]) > 10
    assert not list(tmp_path.glob("*.part"))
    answer = coopsim("phantom", "run", "--gpu", out, "--", "python", "x.py")
    assert answer.code == 2
    assert "made on the phantom GPU, which measures nothing" in answer.err
    content["phantom"] = False  # what a card would have left
    out.write_text(json.dumps(content), encoding="utf-8")
    measured = profiles.get(str(out)).measured
    assert measured is not None
    assert measured.summary.startswith("addresses, host time; 20")
    assert measured.by == "me"


def test_bad_input(coopsim: Any, tmp_path: Path) -> None:
    answer = coopsim("calibrate", "-o", tmp_path / "card.json", "--parts", "contxt")
    assert (answer.code, answer.err) == (2, "coopsim: unknown part 'contxt'; did you mean context?\n")
    answer = coopsim("calibrate", "-o", tmp_path / "no" / "card.json")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    answer = coopsim("calibrate", "-o", tmp_path / "card.txt")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    answer = coopsim("calibrate", "-o", tmp_path / "card.json", "--dry-run", "h1000")
    assert answer.code == 2
    assert "unknown card" in answer.err


def test_no_gpu(coopsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    answer = coopsim("calibrate", "-o", tmp_path / "card.json", "--parts", "host")
    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith("coopsim: nothing to measure: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_all_of_it_interrupted(phantom_gpu: None, tmp_path: Path) -> None:
    """Interrupted while ops are timed, the same command goes on from there, and the file has every part."""
    journal = tmp_path / "card.json.part"
    child = subprocess.Popen(COMMAND, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not (journal.exists() and journal.read_text().count('"prices"') > 20):
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    assert child.returncode == 130, said
    assert "the same command goes on" in said
    before = journal.read_text().splitlines()
    done = subprocess.run(COMMAND, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{sum(chr(34) + 'prices' + chr(34) in line for line in before)} done before" in done.stderr
    assert "not measured" not in done.stderr
    text = (tmp_path / "card.json").read_text(encoding="utf-8")
    content = json.loads(text)
    fields, measured = card_file.parse(json.dumps(content | {"phantom": False}), "card.json", profiles._base)
    assert set(measured.parts) == {"context", "prices", "workspaces", "link", "addresses", "host_ns_per_op"}
    assert fields["name"] == "h100-80gb"
    assert measured.link is not None
    assert 0 < (measured.link.host_ns or 0) < 10_000_000
    assert len(content["workspaces"]) == PARTS["workspaces"].size()
    assert os.listdir(tmp_path) == ["card.json"]
