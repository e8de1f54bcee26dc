"""The commands of SKILL.md are run, and have the exit codes and keys that it names."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

from .blocks import blocks, commands

PAGE = ROOT / "SKILL.md"
KEYS = {
    "phantom run": (
        "outcome",
        "peak_device_bytes",
        "memory_bytes",
        "peak_by_kind",
        "out_of_memory",
        "growth",
        "needs_data",
    ),
    "fit": ("fits", "needs_bytes", "memory_bytes", "remedies"),
    "advise": ("memory_bytes",),
    "replay": ("outcome", "overhead", "peak_bytes", "fragmentation_rate"),
    "sweep": ("rows",),
}


def test_it_begins_as_skills_do() -> None:
    """Front matter with a name and a description, and a command for each row of its table."""
    text = PAGE.read_text(encoding="utf-8")
    assert re.match(r"---\nname: [a-z]+\ndescription: .+?\n---\n", text, re.DOTALL)
    assert text.count("| `coopsim ") == 8
    named = {key for keys in KEYS.values() for key in keys} - {"memory_bytes", "rows"}
    assert {key for key in named if f"`{key}`" not in text} == set()


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_every_command_is_run(coopsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    shutil.copy(ROOT / "examples" / "train.py", "train.py")
    done = []
    for block in blocks(PAGE):
        for command in commands(block.text):
            words = shlex.split(command)[1:]
            answer = coopsim(*words)
            name = " ".join(words[:2]) if words[0] == "phantom" else words[0]
            assert answer.code == (3 if name == "phantom run" else 0), (command, answer.err)
            found = json.loads(answer.out)
            assert not [key for key in KEYS[name] if key not in found], command
            done.append(name)
            if name == "replay":
                assert 1.1 < found["overhead"] < 1.3  # a ratio, as the page says
            if name == "phantom run":
                assert found["out_of_memory"]["place"].startswith("train.py:")
            if name == "fit":
                assert any(remedy["verified"] for remedy in found["remedies"])
    assert sorted(done) == sorted(KEYS)
