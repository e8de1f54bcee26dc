"""experiments/peft: the table of measured runs is read, and the page says what was predicted."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from coopsim.base.types import CoopsimError
from tests.conftest import ROOT

HERE = ROOT / "experiments" / "peft"


@pytest.fixture
def peft(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Imports a script of the folder, which imports its own and those of experiments/."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(HERE))
    yield script
    for name in set(sys.modules) - before:
        if "experiments" in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def test_every_row_has_its_settings(peft: Callable[..., ModuleType]) -> None:
    rows = peft("rows").read(HERE / "data")
    assert len(rows) == 46
    for row in rows:
        assert row.reserved > row.allocated > 2 * row.total / 1.2, row.name
        full = row.experiment.startswith("full-finetuning/")
        assert (row.folder / "adapter_config.json").exists() != full, row.name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task,experiment\nMetaMathQA,a/b\n", "not such a table: KeyError"),
        (None, "truth.csv"),
        ("other", "no script for the task speech; known: MetaMathQA, image-gen"),
    ],
)
def test_other_tables_are_refused(text: str | None, said: str, tmp_path: Path, peft: Callable[..., ModuleType]) -> None:
    if text == "other":
        text = (HERE / "data" / "truth.csv").read_text().replace("image-gen,", "speech,")
    if text:
        (tmp_path / "truth.csv").write_text(text)
    with pytest.raises(CoopsimError, match=said) as caught:
        peft("rows").read(tmp_path)
    assert "\n" not in str(caught.value)


def test_lengths_fall_within_each_bucket_and_the_longest_follows_an_emptied_cache(
    peft: Callable[..., ModuleType],
) -> None:
    lengths = peft("lengths")
    found = lengths.sequence(lengths.LONGEST)
    at = found.index(max(found))
    assert (found[at], found[at - 1], found.count(0)) == (lengths.LONGEST, 0, 3)
    assert max(found[at + 1 :]) <= 0.6 * lengths.LONGEST
    for i, length in enumerate(found[1:], 1):
        assert length <= found[i - 1] or found[i - 1] == 0


def test_what_is_kept_depends_on_settings(tmp_path: Path, peft: Callable[..., ModuleType]) -> None:
    """A row whose settings have changed is run again."""
    run, rows = peft("run"), peft("rows")
    run.PACKAGES = ()
    shutil.copytree(HERE / "data", tmp_path / "data")
    [row] = [r for r in rows.read(tmp_path / "data") if r.name == "MetaMathQA/lora/llama-3.2-3B-rank64"]
    before = run._inputs(row)
    assert run._inputs(row) == before
    path = row.folder / "adapter_config.json"
    path.write_text(path.read_text().replace('"r": 64', '"r": 65'))
    assert run._inputs(row) != before


def test_without_peft_one_line(peft: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    run = peft("run")
    run.PACKAGES = ("no-such-package",)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    with pytest.raises(CoopsimError, match=r"no-such-package is not installed: pip install -r .*requirements\.txt"):
        run.main()


def test_the_page_says_what_was_found(peft: Callable[..., ModuleType]) -> None:
    page = peft("page")
    from experiments.common.pages import read_section

    assert read_section("peft").strip() == page.section().strip()
    assert read_section("fine-tuning").strip() == page.methods().strip()
    found = page.predicted(page.expected("peft"))
    assert found.error_percent.abs().median() <= 0.5
    assert (found.error_percent.abs() <= 2).mean() >= 0.9
    text = page.DOCS.read_text(encoding="utf-8")
    for row in page.misses(found).itertuples():
        assert f"`{row.experiment.partition('/')[0]}`" in text.partition("**What was missed.**")[2], row.experiment
