"""Pipelines: all ranks run, and send each other messages."""

import json

import pytest

from tests.ranks.conftest import SCRIPTS, Command


@pytest.mark.slow
def test_all_ranks_of_a_pipeline_run(phantom_run: Command) -> None:
    words = ("--world", "3", "--", "python", SCRIPTS / "pp.py")
    answer = phantom_run("--json", *words)
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert "a pipeline, whose ranks differ and need each other: all of them are run" in answer.err.splitlines()
    peaks = [rank["peak_allocated_bytes"] for rank in report["ranks"]]
    # 1F1B: an earlier stage holds the activations of more micro-batches
    assert len(peaks) == 3
    assert peaks[0] > peaks[1] > peaks[2]
    assert report["peak_reserved_bytes"] == max(rank["peak_reserved_bytes"] for rank in report["ranks"])


def test_no_stage_runs_alone(phantom_run: Command) -> None:
    answer = phantom_run("--world", "3", "--ranks", "1", "--", "python", SCRIPTS / "pp.py")
    assert (answer.code, answer.last_line) == (
        2,
        "coopsim: pp.py is a pipeline, whose ranks need each other: --ranks all",
    )
