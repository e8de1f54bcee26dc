"""Pipelines: all ranks run, and send each other messages."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from coopsim.run import Report, Script, run
from coopsim.run.ranks import stages
from coopsim.trace.snapshot.model import read
from tests.run.ranks.conftest import SCRIPTS, Command


@pytest.mark.slow
def test_all_ranks_of_a_pipeline_run(phantom_run: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The snapshot is that of the rank that the report is of."""
    folder = tmp_path_factory.mktemp("snapshot")
    words = ("--snapshot", folder / "s.pickle", "--world", "3", "--", "python", SCRIPTS / "pp.py")
    answer = phantom_run("--json", *words)
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert "a pipeline, whose ranks differ and need each other: all of them are run" in answer.err.splitlines()
    peaks = [rank["peak_allocated_bytes"] for rank in report["ranks"]]
    # 1F1B: an earlier stage holds the activations of more micro-batches
    assert len(peaks) == 3
    assert peaks[0] > peaks[1] > peaks[2]
    assert [file.name for file in folder.iterdir()] == ["s.pickle"]
    assert sum(one.nbytes for one in read(folder / "s.pickle").segments) == report["peak_reserved_bytes"]
    assert report["peak_reserved_bytes"] == max(rank["peak_reserved_bytes"] for rank in report["ranks"])


def found(world: int, *words: str) -> Report:
    return run(Script(("python", str(SCRIPTS / "pp.py"), *words), card="h100-80gb", world_size=world, quiet=True))


@pytest.mark.slow
def test_stages_by_themselves_take_what_they_take_together(
    monkeypatch: pytest.MonkeyPatch, phantom_run: Command
) -> None:
    together = found(4)
    monkeypatch.setattr(stages, "FEW", 3)
    apart = found(4)
    assert (together.pipeline, apart.pipeline) == (0, 4)
    figures = ("rank", "peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes", "peak_by_kind")
    of_each = [[[getattr(one, key) for key in figures] for one in report.ranks] for report in (together, apart)]
    assert of_each[0] == of_each[1]
    assert [one.rank for one in apart.ranks] == [0, 1, 2, 3]


@pytest.mark.slow
def test_like_stages_of_a_long_pipeline_run_once(phantom_run: Command) -> None:
    """GPipe holds all micro-batches in each stage."""
    report = found(16, "gpipe")
    assert [one.rank for one in report.ranks] == [0, 1, 8, 14, 15]
    assert [one.alike for one in report.ranks] == [(), tuple(range(2, 8)), tuple(range(9, 14)), (), ()]
    assert not any(one.between for one in report.ranks)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("fsdp",), ("fsdp", "gpipe")])
def test_one_of_two_pipelines_side_by_side(words: tuple[str, ...], phantom_run: Command) -> None:
    """Its stages take what those of both take that really run."""
    script = Script(("python", str(SCRIPTS / "pp_dp.py"), *words), card="h100-80gb", world_size=4, quiet=True)
    one, both = run(script), run(replace(script, ranks="all"))
    assert [(stage.rank, stage.pipeline) for stage in one.ranks] == [(0, 2), (1, 2)]
    keys = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes", "peak_by_kind")
    of_one, of_both = ([[getattr(rank, key) for key in keys] for rank in job.ranks] for job in (one, both))
    assert of_both == [*of_one, *of_one]


def figures(of: Callable[[int], int], n: int) -> tuple[list[int], dict[int, int]]:
    ran: dict[int, int] = {}
    wanted = stages.first(n)
    while wanted:
        ran |= {stage: of(stage) for stage in wanted}
        wanted = stages.more(ran)
    return sorted(ran), ran


def test_which_stages_to_run() -> None:
    assert figures(lambda stage: stage, 8)[0] == list(range(8))
    ran, known = figures(lambda stage: 2 * (stage == 0) + (stage < 99), 100)
    assert ran == [0, 1, 50, 98, 99]
    assert stages.left_out(known, 1) == (range(2, 50), True)
    # What changes once in the middle is found between two neighbours.
    ran, known = figures(lambda stage: stage < 37, 100)
    assert {36, 37} <= set(ran)
    assert all(alike for _, alike in (stages.left_out(known, stage) for stage in ran if stage not in (36, 99)))
    # All differ: 16 are run, and what lies between them is said.
    ran, known = figures(lambda stage: stage, 100)
    assert len(ran) == 16
    assert sum(len(between) for between, alike in (stages.left_out(known, n) for n in ran) if not alike) == 84


def test_no_stage_runs_alone(phantom_run: Command) -> None:
    answer = phantom_run("--world", "3", "--ranks", "1", "--", "python", SCRIPTS / "pp.py")
    assert (answer.code, answer.last_line) == (
        2,
        "coopsim: pp.py is a pipeline, whose ranks need each other: --ranks all",
    )
