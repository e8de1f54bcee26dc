"""Every key that `--json` prints is on its page."""

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from coopsim.base.types import Outcome
from coopsim.run import figure
from coopsim.run.longrun.replay import Replay
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
    return set(re.findall(r"`([a-z_0-9]+)`", section[1]))


@pytest.mark.parametrize("verb", RUNS)
def test_what_is_printed_is_on_the_page(verb: str, coopsim: Callable[..., Answer], tmp_path: Path) -> None:
    found = json.loads(coopsim(*RUNS[verb], "--json").out)
    keys = {key for one in (found if isinstance(found, list) else [found]) for key in one}
    assert keys
    assert keys <= declared(verb), keys - declared(verb)


def keys_of(kind: Any) -> Iterator[str]:
    """The keys of all dataclasses that a type is made of."""
    for part in get_args(kind):
        yield from keys_of(part)
    if is_dataclass(kind) and kind is not Report:
        for name, of in get_type_hints(kind).items():
            yield name
            yield from keys_of(of)


def test_the_table_of_figures_is_current() -> None:
    spec = importlib.util.spec_from_file_location("json_page", ROOT / "docs" / "_ext" / "json_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == PAGE, "python docs/_ext/json_page.py"
    report = Report(command=["train.py"], gpu="a100-80gb", memory_bytes=1, outcome=Outcome.OK, processes=1)
    assert [*report.to_dict()] == [*figure.declared(Report)]


def test_what_figures_are_made_of_is_on_the_page() -> None:
    hints = get_type_hints(Report, localns={"Report": Report, "Replay": Replay})
    keys = {key for name in figure.declared(Report) for key in keys_of(hints[name])}
    assert {"bytes_per_step", "fragmentation_bytes", "prefetch", "requested_bytes"} < keys
    assert keys <= declared("phantom run"), keys - declared("phantom run")
