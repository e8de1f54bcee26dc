"""Programs that others wrote: without checkouts nothing runs; the page has the table of the CSV."""

from collections.abc import Callable
from types import ModuleType

import pytest

from experiments.common.pages import read_section

Script = Callable[[str], ModuleType]


def test_without_checkouts_one_line_is_said(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert script("experiments.programs.run").main([]) == 0
    assert capsys.readouterr().out.startswith("skipped: --checkouts FOLDER has the checkouts of ")


def test_every_program_has_its_data_and_a_row(script: Script) -> None:
    run, made = script("experiments.programs.run"), script("experiments.programs.made")
    programs = run.programs()
    assert all(about.get("data", "texts") in made.MADE for about in programs.values())
    assert all("revision" in about for about in programs.values() if "checkout" in about)
    assert set(run.known()) <= set(programs)


def test_the_page_has_the_table(script: Script) -> None:
    run = script("experiments.programs.run")
    assert read_section("programs").strip() == run.table(run.known()).strip()


def test_times_count_from_the_verdict(script: Script) -> None:
    run = script("experiments.programs.run")
    lines = [
        (3, "[1] as it is …"),
        (9, "[1] needs 5 GiB"),
        (9, "[2] autocast …"),
        (14, "    kind   peak  time  numbers"),
    ]
    lines += [(14, "    precision   3.7 GiB   -17.3%  no"), (21, "    live with offload   3.9 GiB   +2.0%  yes")]
    said = [run.Said(*line) for line in lines]
    expected = {"verdict_s": 9, "same_s": 12, "same": "live with offload"}
    assert run._times(said) == expected
    tried = [run.Said(10, "[2] --bf16 of the program: computes …"), run.Said(20, "[2] fits, 4 GiB (9 s)")]
    assert run._times([*said[:2], *tried]) == {"verdict_s": 10}  # its row is still to come
    assert run._times([*said[:2], *tried, run.Said(21, "    precision   4 GiB   -9%  no")])["own_s"] == 11
    assert run._times([*said[:2], tried[0], run.Said(20, "[2] out of memory (9 s)")]) == {"verdict_s": 10}
    assert run._times(said[:2]) == {}


def test_options_of_the_program_are_told_from_other_lines(script: Script) -> None:
    added = script("experiments.programs.run")._added
    command = ["python", "train.py", "-b", "32"]
    assert added(command, ["python train.py -b 32 --grad-checkpointing"]) == ["--grad-checkpointing"]
    assert added(command, ["python train.py -b 16"]) == ["-b", "16"]
    assert added(command, ["python train.py -b 32 --accum 2 --bf16"]) == ["--accum", "2", "--bf16"]
    assert added(command, ["model.to(torch.bfloat16)"]) == []
    assert added(command, ["zero.bucket: 5  # in zero3.json"]) == ["zero.bucket: 5"]
