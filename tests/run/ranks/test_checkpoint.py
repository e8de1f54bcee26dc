"""Sharded checkpoints and clipped gradients: the script asserts shapes, values and files; peaks are those of all."""

import pytest

from tests.run.ranks.conftest import Job
from tests.run.ranks.peaks import PEAKS


def test_one_rank_loads_what_it_saved(job: Job) -> None:
    found = job("checkpoint", world=8)
    assert (found["outcome"], found["steps"]) == ("ok", 4)  # of two optimizers, the second once the first is gone


@pytest.mark.slow
def test_the_same_with_all_ranks(job: Job) -> None:
    alone, together = job("checkpoint", world=2), job("checkpoint", world=2, ranks="all")
    assert [one["rank"] for one in together["ranks"]] == [0, 1]
    for one in together["ranks"]:
        assert {key: one[key] for key in PEAKS} == {key: alone[key] for key in PEAKS}
