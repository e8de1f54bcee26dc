"""Pipelines: all ranks run, and send each other messages."""

import json

import pytest

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


@pytest.mark.parametrize(
    ("words", "many"), [(("--world", "3", "--ranks", "1"), ""), (("--world", "16"), ", which are 16")]
)
def test_no_stage_runs_alone(words: tuple[str, ...], many: str, phantom_run: Command) -> None:
    answer = phantom_run(*words, "--", "python", SCRIPTS / "pp.py")
    wanted = f"coopsim: pp.py is a pipeline, whose ranks need each other{many}: --ranks all"
    assert (answer.code, answer.last_line) == (2, wanted)
