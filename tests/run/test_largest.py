"""`coopsim phantom run --largest`: the largest number with which a script trains."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopsim.base.types import CoopsimError
from coopsim.run import Report
from coopsim.run.largest import Largest, search
from coopsim.run.search import SearchedRuns
from tests.processes import command_of, descendants, until

MIB = 1 << 20
SCRIPT = """\
import sys
import torch

n = int(sys.argv[1].partition("=")[2])
weight = torch.zeros(1 << 18, device="cuda", requires_grad=True)
(torch.zeros(n, 1 << 18, device="cuda") * weight).sum().backward()
"""


def report(n: int, fixed: int, each: int, memory: int) -> Report:
    """Memory that grows with n, in segments of 2 MiB."""
    taken = -(-(fixed + each * n) // (2 * MIB)) * 2 * MIB
    peaks = dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes"), 0)
    return Report(
        command=[],
        gpu="",
        memory_bytes=memory,
        context_bytes=0,
        outcome="ok" if taken <= memory else "oom",
        processes=1,
        out_of_memory=None,
        steps=1,
        peak_device_bytes=min(taken, memory),
        retries=0,
        ooms=0,
        versions={},
        needs_data=[],
        **peaks,
    )


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 50), st.integers(0, 100_000), st.integers(0, 500 * MIB), st.integers(1, 40 * MIB), st.integers(1, 24)
)
def test_both_neighbours_ran(low: int, more: int, fixed: int, each: int, gib: int) -> None:
    def run(n: int) -> Report:
        assert low <= n <= low + more
        return report(n, fixed, each, gib << 30)

    runs = SearchedRuns(run)
    found = search(runs, low, low + more)
    tried = runs.tried
    largest = min(((gib << 30) - fixed) // each, low + more)
    assert found.value == (largest if largest >= low else None)
    if found.value is None:
        assert list(tried) == [low]
    elif found.value < low + more:
        assert found.fails == found.value + 1
    else:
        assert found.fails is None
    assert len(tried) <= 30


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 50), st.integers(0, 5_000), st.integers(0, 500 * MIB), st.integers(1, 40 * MIB), st.integers(1, 24)
)
def test_within_a_tolerance_and_outside_the_range(low: int, more: int, fixed: int, each: int, gib: int) -> None:
    ranges = [(low, low + more)]

    def run(n: int) -> Report:
        assert ranges[-1][0] <= n <= ranges[-1][1]
        return report(n, fixed, each, gib << 30)

    runs = SearchedRuns(run)
    found = search(
        runs, low, low + more, tolerance=0.01, times=3, widened=lambda *ends: ranges.append((ends[0], ends[1]))
    )
    tried = runs.tried
    largest = ((gib << 30) - fixed) // each
    assert (found.low, found.high) == ranges[-1]
    assert len(ranges) <= 7
    if found.value is None:
        assert found.low == 1 or len(ranges) == 4
        assert largest < found.low
    elif found.fails is None:
        assert found.value == found.high <= largest
        assert len(ranges) == 4
        assert found.high == 64 * (low + more)
    else:
        assert found.value <= largest < found.fails
        assert found.fails - found.value <= max(1, found.value // 100)
    assert len(tried) <= 25


def test_a_script_that_fails_outside_the_range_ends_the_search() -> None:
    """As with a batch larger than the data; inside the range the script's failure is the answer."""

    def run(n: int) -> Report:
        if n > 10:
            raise CoopsimError(f"with {n}: no batch")
        return report(n, 0, MIB, 1 << 30)

    found = search(SearchedRuns(run), 2, 10, times=3)
    assert (found.value, found.fails, found.refused) == (10, None, "with 40: no batch")
    with pytest.raises(CoopsimError, match="no batch"):
        search(SearchedRuns(run), 2, 11, times=3)


def test_a_tolerance_saves_runs() -> None:
    runs = []
    for tolerance in (0.0, 0.01):
        one = SearchedRuns[int](lambda n: report(n, 300 * MIB, 70_000 + n, 24 << 30))
        runs.append(len(search(one, 1, 1_000_000, tolerance=tolerance).tried))
    assert runs[1] <= runs[0] - 5


def test_few_runs_where_memory_grows_evenly() -> None:
    found = search(SearchedRuns(lambda n: report(n, 300 * MIB, 70 * MIB, 24 << 30)), 1, 65536)
    assert (found.value, found.fails) == (346, 347)
    assert len(found.tried) <= 8


def command(folder: Path, *options: str) -> list[str]:
    (folder / "train.py").write_text(SCRIPT)
    line = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", "rtx-3060", "--memory", "300MiB", *options]
    return [*line, "--", "python", str(folder / "train.py"), "--batch={}"]


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_a_script(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path, "--json", "--largest", "1:1000"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    outcomes = {run["number"]: run["outcome"] for run in found["runs"]}
    assert found["fails"] == found["largest"] + 1
    assert (outcomes[found["largest"]], outcomes[found["fails"]]) == ("ok", "oom")
    # 140 MiB beside the context, for rows of 1 MiB: the input, the product and at most two gradients of its size
    assert 140 / 5 < found["largest"] < 140 / 2
    assert found["trains_report"]["peak_device_bytes"] <= 300 * MIB
    assert found["fails_report"]["out_of_memory"]["place"].startswith("train.py:")
    assert "assumption: if a number trains, smaller ones do, too" in done.stderr
    assert done.stderr.count("\nwith ") == len(found["runs"])


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_the_range_lies_too_high(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path, "--largest", "500:1000"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the answer is not in that range; looking from 125 to 1000" in done.stderr


@pytest.mark.usefixtures("phantom_gpu")
def test_interrupted(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in a shell's background
    with subprocess.Popen(
        command(tmp_path, "--largest", "1:1000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as search_:
        assert search_.stderr is not None
        for line in search_.stderr:
            if line.startswith("with 1:"):
                break
        assert until(lambda: any("--batch=" in str(command_of(pid)) for pid in descendants(search_.pid)))
        search_.send_signal(signal.SIGINT)
        rest = search_.stderr.read()
        assert search_.wait(60) == 130
        assert rest.endswith("so far: 1 trains\ncoopsim: interrupted\n"), rest
        assert search_.stdout is not None
        assert search_.stdout.read() == ""


@pytest.mark.parametrize(
    ("options", "words", "says"),
    [
        (("--largest", "1:8"), ("train.py",), "put {} where the number goes"),
        (("--largest", "8:1"), ("train.py", "{}"), "'8:1' is not LOW:HIGH"),
        (("--largest", "8"), ("train.py", "{}"), "'8' is not LOW:HIGH"),
        (("--largest", "0:8"), ("train.py", "{}"), "not a whole number from 1"),
        (("--largest", "1:8", "--fit"), ("train.py", "{}"), "--fit is for one run"),
        (("--largest", "1:8", "--tolerance", "1%"), ("train.py", "{}"), "unknown option '--tolerance'"),
        (("--largest", "1:8", "--memory", "8"), ("train.py", "{}"), "--memory '8' has no unit"),
    ],
)
def test_bad_input(options: tuple[str, ...], words: tuple[str, ...], says: str, coopsim: Any) -> None:
    code, out, err = coopsim("phantom", "run", *options, "--", "python", *words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert says in err


def test_what_is_known_so_far() -> None:
    from coopsim.cli.phantom_largest import _so_far

    assert _so_far(Largest(1, 8, {})) == ""
    assert _so_far(Largest(1, 8, {n: report(n, 0, MIB, 4 * MIB) for n in (1, 8)})) == "1 trains, 8 does not"
