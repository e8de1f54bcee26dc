"""Every code block of every page is run, or read by what would read it: pages cannot promise what does not work."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coopsim.cli.parser import build
from tests.conftest import ROOT, Answer

from .blocks import PAGES, Block, blocks, commands, fused_commands, indented_commands, inline_commands

Caller = Callable[..., Answer]
ALL = [block for page in PAGES for block in blocks(page)]
LANGUAGES = {"python", "sh", "json", "toml", "text", "csv", "sql"}
OPTIONS = {"python": {"not-run"}, "sh": {"parsed"}}


#: Whose step, and whose blocks, are run by a test of their own.
OWN = ("docs/tour.md", "docs/extend.md")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a page's own, in which the recorded traces are."""
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p) and name(p) != OWN[1]], ids=name)
def test_blocks_do_what_they_say(page: Path, room: Path, coopsim: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language == "python":
            code = compile(block.text, block.where, "exec")
            if block.file:
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif "not-run" not in block.options:
                exec(code, names)  # noqa: S102  (it is our own page)
        elif block.language == "sh" and "parsed" not in block.options:
            for command in commands(block.text):
                run(command, block, coopsim, monkeypatch)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)


def run(command: str, block: Block, coopsim: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of a page, in this process."""
    words = shlex.split(command, comments=True)
    with monkeypatch.context() as environment:
        while "=" in words[0]:
            environment.setenv(*words.pop(0).split("=", 1))
        answer = coopsim(*words[1:])
    assert answer.code == block.exit_code, (block.where, command, answer.err)


def test_fences_are_known() -> None:
    """A fence names its language, and options that tests/docs/blocks.py knows."""
    unknown = []
    for block in ALL:
        options = {o for o in block.options if not o.startswith(("file=", "exit="))}
        if block.language not in LANGUAGES or options - OPTIONS.get(block.language, set()):
            unknown.append(f"{block.where}: {block.language} {' '.join(block.options)}")
    assert not unknown, "\n".join(unknown)


def test_commands_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for page in PAGES:
        fenced = [c for b in blocks(page) if b.language in ("sh", "text") for c in commands(b.text)]
        for command in [*fenced, *indented_commands(page)]:
            if error := parses(command, capsys):
                wrong.append(f"{name(page)}: {command}: {error}")
        for command in inline_commands(page):
            error = parses(command, capsys)
            named_only = any(words in error for words in ("arguments are required", "expected one argument"))
            if error and not named_only:
                wrong.append(f"{name(page)}: {command}: {error}")
    assert not wrong, "\n".join(wrong)


def test_commands_are_on_lines_of_their_own(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("    coopsim info T -o U # a trace: lines coopsim export\n    S --torch-snapshot F # a schedule\n")
    assert len(fused_commands(page)) == 2
    assert [f"{name(page)}: {line}" for page in PAGES for line in fused_commands(page)] == []


parser = cache(build)


def parses(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the real parser says against a command: nothing, if it is one."""
    words = shlex.split(command, comments=True)
    while "=" in words[0]:
        words.pop(0)
    capsys.readouterr()
    try:
        parser().parse_args(words[1:])
    except SystemExit as end:
        return "" if end.code == 0 else capsys.readouterr().err
    return ""


def test_a_wrong_option_would_be_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--nosuch" in parses("coopsim replay T --policy coop --budget 6GiB --nosuch", capsys)
    assert "arguments are required" in parses("coopsim replay T", capsys)
    assert "unknown verb" in parses("coopsim reply T", capsys)


STEPS = list({block.text: block for block in ALL if block.is_step}.values())  # the tour's is the README's


@pytest.mark.parametrize("block", [b for b in STEPS if name(b.page) != OWN[0]], ids=lambda b: b.where)
@pytest.mark.usefixtures("phantom_gpu")
def test_steps_can_be_recorded(block: Block, room: Path, coopsim: Caller) -> None:
    Path("train.py").write_text(block.text, encoding="utf-8")
    answer = coopsim("capture", "train.py:step", "-o", "mine.parquet")
    assert answer.code == 0, answer.err
    assert json.loads(coopsim("info", "mine.parquet", "--json").out)["ops"] > 5


@pytest.mark.usefixtures("phantom_gpu")
def test_the_tour_says_what_its_step_costs(room: Path, coopsim: Caller) -> None:
    page = ROOT / OWN[0]
    text = " ".join(page.read_text("utf-8").split())  # wrapped anywhere
    said = re.search(r"costs ([\d.]+) % more time under Coop and ([\d.]+) % under Foresight", text)
    assert said is not None
    Path("train.py").write_text(next(b.text for b in blocks(page) if b.is_step), encoding="utf-8")
    assert coopsim("capture", "train.py:step", "-o", "mine.parquet").code == 0
    for policy, percent in zip(("coop", "foresight"), said.groups(), strict=True):
        answer = coopsim("replay", "mine.parquet", "--policy", policy, "--budget", "50%", "--json")
        assert f"{100 * (json.loads(answer.out)['overhead'] - 1):.1f}" == percent
    assert coopsim("replay", "mine.parquet", "--policy", "coop", "--budget", "30%").code == 3


def test_all_kinds_occur() -> None:
    """Had the pattern missed them, nothing above could fail."""
    assert len(STEPS) >= 3
    kinds = {(b.language, *b.options) for b in ALL}
    assert {("python",), ("python", "not-run"), ("sh",), ("sh", "parsed"), ("text",)} <= kinds
    assert sum(len(indented_commands(p)) for p in PAGES) >= 10
    assert sum(len(inline_commands(p)) for p in PAGES) >= 30


def test_add_a_policy_ends_where_it_says(room: Path, coopsim: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / OWN[1]
    test_blocks_do_what_they_say(page, room, coopsim, monkeypatch)
    Path("model.py").unlink()  # a folder of policies holds no scripts
    monkeypatch.setenv("COOPSIM_POLICIES", ".")
    assert "Tightest" in coopsim("list", "policies").out
    assert coopsim("validate", "schedule.parquet", "--trace", "synth:unet:4").code == 0
