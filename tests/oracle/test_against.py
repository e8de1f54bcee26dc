"""Schedules on the real allocator: of the installed wheel without a GPU, and of PyTorch itself on the phantom GPU."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from coopsim.allocators import cuda_caching
from coopsim.oracle import Gpu, Oracle, OracleError, available, gpu, oracle
from coopsim.oracle.against import compare, smallest_card
from coopsim.replay import replay
from coopsim.requests import of_schedule, of_trace
from coopsim.schedule import Schedule, save
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from tests.conftest import BERT


@pytest.fixture(scope="module")
def real() -> Oracle:
    versions = available()
    if not versions:
        pytest.skip("no CUDA build of torch is installed")
    try:
        return oracle(versions[-1])
    except OracleError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def half(real: Oracle) -> Schedule:
    from coopsim.trace import load

    bert = load(BERT)
    return replay(bert, "coop", peak_bytes(bert, 512) // 2, cuda_caching(torch=real.version), steps=1)


def test_as_predicted(half: Schedule, real: Oracle) -> None:
    found = compare(of_schedule(half), real, "", half.header["budget_bytes"])
    assert found.agrees
    assert found.requests == found.equal > 2000
    assert found.statistics["ooms"] == (n := int((half.action == 7).sum()), n)
    assert n > 0
    assert found.statistics["reserved.peak"][1] == half.header["peak_reserved_bytes"]


def test_on_another_card_it_does_not(half: Schedule, real: Oracle) -> None:
    requests = of_schedule(half)
    found = compare(requests, real, "", half.header["budget_bytes"] + (4 << 30))
    assert found.agrees  # simulation and reality, not the schedule
    assert found.statistics["ooms"][1] < (half.action == 7).sum()


def test_smallest_card_of_an_arena(bert: Trace, real: Oracle) -> None:
    budget = peak_bytes(bert, 512) // 2
    requests = of_schedule(replay(bert, "coop", budget, steps=1))
    for conf in ("", "expandable_segments:True"):
        found = smallest_card(requests, real, conf)
        assert found.confirmed
        assert found.at.serves
        assert not found.below.serves
        assert found.total_bytes > requests.peak_bytes()


def test_recorded_requests(bert: Trace, real: Oracle) -> None:
    """The trace as it was recorded, from the layout of its start: the peak that the run itself had."""
    found = compare(of_trace(bert), real, "", 80 << 30)
    assert found.agrees
    assert found.statistics["reserved.peak"][1] == bert.header["peak_reserved_bytes"]
    assert found.statistics["alloc.peak"][1] == bert.header["peak_allocated_bytes"]


def test_pytorch_itself(half: Schedule, real: Oracle) -> None:
    """The same through torch.cuda, as on a machine with a GPU: the card is limited by the memory fraction."""
    try:
        device = gpu(os.environ | phantom.environment("a100-80gb"))
    except (OracleError, phantom.PhantomError) as reason:
        pytest.skip(str(reason))
    assert isinstance(device, Gpu)
    assert device.version == real.version
    found = compare(of_schedule(half), device, "", half.header["budget_bytes"])
    assert found.agrees
    assert found.statistics["ooms"][1] > 0


def test_command_line(half: Schedule, bert: Trace, real: Oracle, tmp_path: Path, coopsim: Any) -> None:
    save(half, tmp_path / "s.parquet")
    against = f"torch=={real.version}"
    code, out, err = coopsim("validate", tmp_path / "s.parquet", "--trace", BERT, "--against", against, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["sound"]
    assert said["against"]["agrees"]
    half.header["budget_bytes"] += 4 << 30  # on this card, less is refused
    try:
        save(half, tmp_path / "s.parquet")
        code, out, _ = coopsim("validate", tmp_path / "s.parquet", "--trace", BERT, "--against", against)
        assert code == 1
        assert "the real allocator does otherwise" in out
    finally:
        half.header["budget_bytes"] -= 4 << 30


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("jax", "--against jax: write torch==VERSION, such as torch==2.15.0, or cuda"),
        ("torch==", "--against torch==: write torch==VERSION"),
        ("torch==0.0.1", "torch 0.0.1"),
    ],
)
def test_bad_input(against: str, said: str, half: Schedule, tmp_path: Path, coopsim: Any) -> None:
    save(half, tmp_path / "s.parquet")
    code, out, err = coopsim("validate", tmp_path / "s.parquet", "--trace", BERT, "--against", against)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"coopsim: {said}")
