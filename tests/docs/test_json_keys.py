"""Every key that `--json` prints is on its page."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from coopsim.base.types import Outcome
from coopsim.run.report import Report
from tests.conftest import ROOT, Answer

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
RUNS = {
    "replay": ("replay", "synth:unet:4", "--policy", "coop", "--budget", "80%"),
    "sweep": ("sweep", "synth:unet:4", "--policy", "coop", "--budget", "80%"),
    "map": ("map", "synth:unet:4", "--policy", "coop", "--largest", "90%", "--smallest", "70%", "--step", "10%"),
    "plan": ("plan", "synth:unet:4"),
    "gap": ("gap", "synth:chain:4", "--budget", "80%"),
}


def declared(verb: str) -> set[str]:
    """The names in code that a section has."""
    section = re.search(rf"^## `{verb}`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, verb
    return set(re.findall(r"`([a-z_]+)`", section[1]))


@pytest.mark.parametrize("verb", RUNS)
def test_what_is_printed_is_on_the_page(verb: str, coopsim: Callable[..., Answer], tmp_path: Path) -> None:
    found = json.loads(coopsim(*RUNS[verb], "--json").out)
    keys = {key for one in (found if isinstance(found, list) else [found]) for key in one}
    assert keys
    assert keys <= declared(verb), keys - declared(verb)


def test_reports_of_scripts_are_on_the_page() -> None:
    report = Report(command=["train.py"], gpu="a100-80gb", memory_bytes=1, outcome=Outcome.OK, processes=1)
    assert report.to_dict().keys() <= declared("phantom run"), report.to_dict().keys() - declared("phantom run")
