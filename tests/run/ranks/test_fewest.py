"""The least number of cards on which a job fits."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopsim.base.types import CoopsimError
from coopsim.cli import phantom_fewest
from coopsim.run import Script
from coopsim.run.ranks.fewest import Fewest, search, sizes
from coopsim.run.ranks.world import LARGEST
from coopsim.run.records import OutOfMemory
from coopsim.run.report import Report
from coopsim.run.search import SearchedRuns
from tests.run.ranks.conftest import SCRIPTS, Command


def report(world: int, cards: int, *, trains: bool) -> Report:
    return Report(
        command=[], gpu="h100-80gb", memory_bytes=0, outcome="ok" if trains else "oom", steps=1, processes=1,
        world_size=world, ranks_per_node=min(world, cards), cards_per_node=cards,
    )  # fmt: skip


@given(st.sampled_from((4, 6, 8)), st.data())
def test_the_least_that_trains(cards: int, data: st.DataObject) -> None:
    choice = sizes(cards)
    first = data.draw(st.sampled_from((*choice[:200], 3)))  # three of a machine's cards is what was asked for
    choice = sorted({*choice, first})
    least = data.draw(st.sampled_from(choice[:64]))
    refused = data.draw(st.sets(st.sampled_from(choice[:4]))) - {first} if least > choice[3] else set()

    def run(size: int) -> Report:
        assert size in choice
        if size in refused:
            raise CoopsimError("does not fill the mesh")
        return report(size, cards, trains=size >= least)

    found = search(SearchedRuns(run), run(first))
    assert found.value == least
    assert found.fails == (choice[choice.index(least) - 1] if least > 1 else None)
    assert len(found.tried) + len(found.refused) <= 20


@pytest.mark.parametrize("least", [1, 16, 32, 64, 1024])
@pytest.mark.parametrize("first", [8, 64, 512])
def test_a_script_that_wants_powers_of_two(first: int, least: int) -> None:
    """As one does that shares out a batch."""

    def run(size: int) -> Report:
        if size & (size - 1):
            raise CoopsimError("the batch cannot be shared out")
        return report(size, 8, trains=size >= least)

    found = search(SearchedRuns(run), run(first))
    assert found.value == least
    assert len(found.tried) + len(found.refused) <= 16


def test_none_trains() -> None:
    found = search(SearchedRuns(lambda n: report(n, 8, trains=False)), report(8, 8, trains=False))
    assert (found.value, found.fails) == (None, LARGEST)


def test_no_number_of_cards_helps() -> None:
    """What is said then holds for tensor parallelism, too, which does share out activations."""
    out = OutOfMemory("train.py:3", "aten.mm.default", "", "forward", 1, 0, 0, 0, 0, 0, {"activation": 1 << 30}, [])
    script = Script(("python", "train.py"), card="h100-80gb")

    def lines(found: Fewest) -> dict[str, str]:
        return {line[:16].rstrip(): line[16:] for line in phantom_fewest.text(script, found).splitlines()}

    failed = replace(report(8, 8, trains=False), out_of_memory=out)
    none = lines(Fewest({8: failed}, {}))
    assert none["held by"] == "activation 1 GiB"
    assert none["of that"] == "more cards take what the script shares out: DDP nothing, FSDP no activations"
    assert "of that" not in lines(Fewest({8: failed, 16: report(16, 8, trains=True)}, {}))


def test_sizes() -> None:
    assert sizes(8)[:6] == [1, 2, 4, 8, 16, 24]
    assert sizes(6)[:5] == [1, 2, 4, 6, 12]


@pytest.mark.slow
def test_the_smallest_memory_of_a_rank(phantom_run: Command) -> None:
    words = ("--json", "--gpu", "h100-80gb", "--world", "8")
    job = ("--", "python", SCRIPTS / "fsdp2.py")
    found = json.loads(phantom_run(*words, "--fit", *job).out)
    smallest = found["smallest_memory_bytes"]
    taken = found["context_bytes"] + found["nccl_bytes"] + found["peak_allocated_bytes"]
    assert taken <= smallest <= found["peak_device_bytes"]
    below = json.loads(phantom_run(*words, "--memory", f"{smallest - (2 << 20)}B", *job).out)
    assert (below["outcome"], below["ranks"][0]["outcome"]) == ("oom", "oom")


@pytest.mark.slow
def test_on_the_phantom(phantom_run: Command) -> None:
    """The test job takes 849 MiB of the card as one of 2 ranks, and 813 MiB as one of 64."""
    words = ("--world", "2", "--", "python", SCRIPTS / "fsdp2.py")
    answer = phantom_run(
        "--json", "--gpu", "h100-80gb", "--memory", "820MiB", "--nccl-memory", "0B", "--fewest-ranks", *words
    )
    found = json.loads(answer.out)
    least, below = found["fewest_ranks"], found["fails"]
    assert sizes(8).index(least) == sizes(8).index(below) + 1
    assert found["trains_report"]["peak_device_bytes"] <= 820 << 20
    assert (found["trains_report"]["world_size"], found["fails_report"]["outcome"]) == (least, "oom")


def test_of_a_job_only(phantom_run: Command) -> None:
    answer = phantom_run("--fewest-ranks", "--ranks", "all", "--", "python", "train.py")
    expected = "coopsim: --fewest-ranks runs rank 0 of many worlds; --ranks is for one that is known"
    assert (answer.code, answer.last_line) == (2, expected)
