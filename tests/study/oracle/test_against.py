"""Schedules on the real allocator: of the installed wheel without a GPU, and of PyTorch itself on the phantom GPU."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import cuda_caching
from coopsim.simulate.replay import replay
from coopsim.study.oracle import Gpu, Oracle, OracleError, available, gpu, oracle
from coopsim.study.oracle.against import compare, smallest_card
from coopsim.study.oracle.gpu import load
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.requests_of import of_schedule, of_trace
from coopsim.trace.schedule import Schedule, save
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


@pytest.fixture(scope="module")
def device(real: Oracle) -> Gpu:
    """PyTorch itself, through torch.cuda, as on a machine with a GPU."""
    try:
        device = gpu(os.environ | phantom.environment("a100-80gb"))
    except (OracleError, phantom.PhantomError) as reason:
        pytest.skip(str(reason))
    assert device.version == real.version
    return device


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_pytorch_itself(half: Schedule, device: Gpu, conf: str) -> None:
    """The card is limited by the memory fraction; every address is that of the simulation with recorded segments."""
    found = compare(of_schedule(half), device, conf, half.header["budget_bytes"])
    assert found.agrees
    assert found.statistics["ooms"][1] == len(found.refused) > 0
    assert found.recording is not None
    assert (len(found.recording.segments) == found.statistics["ndevalloc"][1]) == (not conf)
    if not conf:
        assert found.foreseen == found.equal  # with 2.12 and newer no address decides


def test_limit_is_exact_and_what_was_refused_is_not_freed(device: Gpu) -> None:
    """A card of 22 MiB serves 20 MiB and 2 MiB; a byte less does not."""
    requests = ["a 0 20971520 0", "a 1 1000 0", "a 2 1000000000 0", "f 2", "f 0", "p"]
    for limit, second in ((22 << 20, "a"), ((22 << 20) - 1, "oom")):
        kinds = [line.split()[0] for line in device.record("", limit, requests).answers]
        assert kinds == ["a", second, "oom", "stats"]


def test_answers_in_a_file(half: Schedule, device: Gpu, tmp_path: Path, coopsim: Any) -> None:
    """Performed again from the file, without the card: the same, but for a schedule that it is not of."""
    requests, budget = of_schedule(half), half.header["budget_bytes"]
    found = compare(requests, device, "", budget)
    assert found.recording is not None
    for name in ("a.json", "a.json.gz"):
        found.recording.save(tmp_path / name)
        again = compare(requests, load(tmp_path / name), "", budget)
        assert again.recording is not None
        assert again.recording.answers == found.recording.answers
        assert dataclasses.replace(again, recording=None) == dataclasses.replace(found, recording=None)
    save(half, tmp_path / "s.parquet")
    code, out, err = coopsim("validate", tmp_path / "s.parquet", "--trace", BERT, "--against", tmp_path / "a.json")
    assert code == 0, err
    assert "of them foreseen, segments placed by rule" in out
    moved = json.loads((tmp_path / "a.json").read_text())
    moved["segments"].reverse()  # not where its blocks are
    (tmp_path / "moved.json").write_text(json.dumps(moved))
    assert not compare(requests, load(tmp_path / "moved.json"), "", budget).agrees
    with pytest.raises(CoopsimError, match="recorded for other requests, other settings or another card"):
        compare(requests, load(tmp_path / "a.json"), "", budget + 1)


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
        ("jax", "--against jax: write torch==VERSION, such as torch==2.15.0, or cuda, or a file of answers"),
        ("torch==", "--against torch==: write torch==VERSION"),
        ("torch==0.0.1", "torch 0.0.1"),
        ("none.json", "none.json: no such file"),
    ],
)
def test_bad_input(against: str, said: str, half: Schedule, tmp_path: Path, coopsim: Any) -> None:
    save(half, tmp_path / "s.parquet")
    code, out, err = coopsim("validate", tmp_path / "s.parquet", "--trace", BERT, "--against", against)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"coopsim: {said}")


@pytest.mark.parametrize("text", ["{", "[]", '{"answers_version": 2}'])
def test_another_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(CoopsimError, match=r"cannot be read|not a file of"):
        load(tmp_path / "a.json")
