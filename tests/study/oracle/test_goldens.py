"""The simulated caching allocator against what the real one answered, as committed; needs no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coopsim.simulate.allocators.caching import case
from tests.conftest import ROOT
from tests.study.oracle.compare import plain, simulate
from tests.study.oracle.confs import REQUESTS
from tests.study.oracle.goldens import load
from tests.study.oracle.streams import CLASSES, Stream

GOLDENS = load()
CASES = os.environ.get("COOPSIM_ALLOCATOR_CASES")


@pytest.mark.parametrize("golden", GOLDENS["streams"], ids=lambda g: g["name"])
def test_every_line_is_equal(golden: dict[str, Any]) -> None:
    stream = Stream(golden["conf"], golden["total"], golden["ops"])
    for versions, lines in golden["answers"]:
        for version in versions:
            assert plain(simulate(stream, version)) == lines, version


def test_there_are_sixteen_classes_for_every_version() -> None:
    assert sum(since == "2.6.0" for _, since in CLASSES.values()) >= 16
    assert {g["name"].split("-")[0] for g in GOLDENS["streams"]} == set(CLASSES)


def test_settings_are_refused_where_torch_refuses_them() -> None:
    wrong = []
    for golden in GOLDENS["confs"]:
        for versions, last in golden["answers"]:
            for version in versions:
                lines = plain(simulate(Stream(golden["conf"], 1 << 30, REQUESTS), version))
                if lines[-1:] != last:
                    wrong.append((version, golden["conf"], lines[-1:], last))
    assert wrong == []


def test_interpreted_is_the_same() -> None:
    """NUMBA_DISABLE_JIT=1: the same code, uncompiled."""
    names = ["default-several-150", "gc_max_split-several-150", "expandable_all-several-150"]
    code = (
        "import tests.study.oracle.test_goldens as t\n"
        f"for g in t.GOLDENS['streams']:\n    if g['name'] in {names}:\n        t.test_every_line_is_equal(g)\n"
        "        print(g['name'])"
    )
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.stdout.split() == names, run.stderr


@pytest.mark.skipif(not CASES, reason="COOPSIM_ALLOCATOR_CASES names no folder of cases")
def test_cases_of_others(coopsim) -> None:
    files = sorted(Path(CASES or "").glob("*.json"))
    assert files
    for file in files:
        given = json.loads(file.read_text())
        asked = case.AllocatorCase(given["conf"], given["total"], given["ops"], case.read(given["ops"]))
        for version, lines in given["expected"].items():
            assert list(case.answer(asked, version)) == lines, (file.name, version)
