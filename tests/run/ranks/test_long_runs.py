"""Long runs of jobs of several ranks: each rank's steps are replayed, and its growth is found."""

import json
from pathlib import Path

import pytest

from tests.run.long_runs import lengths
from tests.run.ranks.conftest import SCRIPTS, Command, Job
from tests.run.ranks.peaks import PEAKS

SCRIPT = SCRIPTS / "lengths.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lengths.txt"
    path.write_text(lengths(300))
    return path


@pytest.mark.slow
def test_every_rank_is_replayed(phantom_run: Command, job: Job, file: Path) -> None:
    """The peaks of 300 steps, of which 60 ran; what is said above is of the rank that takes most.

    Reserved memory is within 2 %, as DDP's threads free in an order that is not always the same.
    """
    ran = job("lengths", world=2, ranks="all")["ranks"]
    options = ("--world", 2, "--ranks", "all", "--steps", 60, "--lengths", file)
    answer = phantom_run("--json", "--gpu", "h100-80gb", *options, "--", "python", SCRIPT)
    told = json.loads(answer.out)
    assert [one["rank"] for one in told["ranks"]] == [0, 1]
    for one, of in zip(told["ranks"], ran, strict=True):
        replay = one["replay"]
        allocated, reserved, *_ = (of[key] for key in PEAKS)
        assert replay["allocated"]["max"] == allocated
        assert replay["reserved"]["max"] == pytest.approx(reserved, rel=0.02)
    assert (told["rank"], told["replay"]) == (1, told["ranks"][1]["replay"])


@pytest.mark.slow
def test_growth_of_every_rank(phantom_run: Command) -> None:
    options = ("--world", 2, "--ranks", "all", "--steps", 40)
    answer = phantom_run("--json", "--gpu", "h100-80gb", *options, "--", "python", SCRIPT, "leaks")
    for one in json.loads(answer.out)["ranks"]:
        assert one["growth"]["bytes_per_step"]
        assert (one["growth"]["kept_in"][0]["name"], one["growth"]["kept_in"][0]["place"]) == ("kept", "lengths.py:23")


@pytest.mark.slow
def test_the_rank_that_runs_alone(phantom_run: Command, file: Path) -> None:
    """Too long an input for the card: as the job itself, in exit code and step."""
    options = ("--gpu", "rtx-3060", "--memory", "750MiB", "--world", 2)
    told = phantom_run(*options, "--steps", 60, "--lengths", file, "--", "python", SCRIPT)
    assert told.code == 3, told.err
    assert "rank            0 of 2, the others imagined" in told.out
    assert "runs out" in told.out
