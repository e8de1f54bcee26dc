"""One rank alone, the others imagined, takes what every one of really all ranks takes."""

import json

import pytest

from tests.run.ranks.conftest import SCRIPTS, Command, Job
from tests.run.ranks.peaks import PEAKS

JOBS = {"ddp": (), "fsdp1": (), "fsdp2": ("--bound",), "tp": ()}


def check(job: Job, script: str, world: int) -> None:
    """Rank 0 alone against all of them together."""
    alone = job(script, *JOBS[script], world=world)
    together = job(script, *JOBS[script], world=world, ranks="all")
    assert (alone["world_size"], [one["rank"] for one in alone["ranks"]]) == (world, [0])
    assert [one["rank"] for one in together["ranks"]] == list(range(world))
    assert alone["steps"] == together["steps"] == 3
    for one in together["ranks"]:
        assert {key: one[key] for key in PEAKS} == {key: alone[key] for key in PEAKS}


@pytest.mark.slow
@pytest.mark.parametrize("script", JOBS)
def test_of_two(job: Job, script: str) -> None:
    check(job, script, 2)


@pytest.mark.slow
@pytest.mark.parametrize("world", [4, 8])
@pytest.mark.parametrize("script", JOBS)
def test_of_many(job: Job, script: str, world: int) -> None:
    """Eight take some 5 GiB of this machine's memory."""
    check(job, script, world)


@pytest.mark.slow
def test_another_rank_than_the_first(job: Job) -> None:
    found = job("fsdp2", world=4, ranks="0,3")
    first, last = found["ranks"]
    assert (first["rank"], last["rank"]) == (0, 3)
    assert {key: first[key] for key in PEAKS} == {key: last[key] for key in PEAKS}


@pytest.mark.slow
def test_a_shard_of_64_is_smaller_than_one_of_2(job: Job) -> None:
    two, many = job("fsdp2", world=2), job("fsdp2", world=64)
    layer = 2 * 256 * 1024 + 1024 + 256
    parameters = 6 * layer
    for world, found in ((2, two["peak_by_kind"]), (64, many["peak_by_kind"])):
        assert found["parameters"] == 4 * parameters // world
        assert found["optimizer_state"] == 8 * parameters // world
        # In the backward pass: a layer in bf16, and the next one. Of 64, the peak is before any gradient is reduced.
        assert found["gathered_layers"] == 2 * 2 * layer
        assert found["buckets"] == (4 * layer if world == 2 else 0)
        own = 4 * layer // world if world == 2 else 0
        assert found["gradients"] == own + 2 * (256 * 1024 + 256)
    # Weights and AdamW's two moments in fp32, of which each rank holds its share, at the peak and before.
    least = 12 * parameters * (1 / 2 - 1 / 64)
    assert two["peak_requested_bytes"] - many["peak_requested_bytes"] >= least


@pytest.mark.slow
def test_what_nccl_takes_of_the_card(job: Job, phantom_run: Command) -> None:
    two, four = job("fsdp2", world=2), job("fsdp2", world=4)
    assert (two["nccl_bytes"], four["nccl_bytes"]) == (544_000_000, 688_000_000)
    words = ("--json", "--gpu", "h100-80gb", "--world", "4", "--", "python", SCRIPTS / "fsdp2.py")
    none = json.loads(phantom_run("--nccl-memory", "0B", *words).out)
    granule = 2 << 20
    assert none["nccl_bytes"] == 0
    assert four["peak_device_bytes"] - none["peak_device_bytes"] == -(-688_000_000 // granule) * granule
    assert none["peak_reserved_bytes"] == four["peak_reserved_bytes"]
