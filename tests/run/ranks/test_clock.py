"""The phantom's clock: by hand, and the same in every run."""

import json
import os
import subprocess
import sys

import pytest

from coopsim.cards import prices, profiles
from coopsim.phantom import build
from coopsim.simulate.timeline import load_params
from tests.conftest import ROOT
from tests.run.ranks.conftest import SCRIPTS, Command, Job

DISPATCH, LAUNCH, QUEUE = 10_000, 5_000, 1024
BYTES = 256 << 20
#: Read and written by an H100.
KERNEL = prices.table(profiles.get("h100-80gb")).price(prices.Call(nbytes=2 * BYTES))


WATCHDOG = """\
import ctypes

c = ctypes.CDLL(None)
answers = []


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def watchdog(_):
    c.prctl(15, b"pt_nccl_watchdg")
    condition, mutex = (ctypes.c_char * 64)(), (ctypes.c_char * 64)()
    c.pthread_mutex_lock(mutex)
    answers.append(c.pthread_cond_timedwait(condition, mutex, (ctypes.c_long * 2)(1, 0)))
    return 0


c.coopsim_watchdogs_expect(1)
thread = ctypes.c_void_p()
c.pthread_create(ctypes.byref(thread), None, watchdog, None)
c.pthread_join(thread, None)
print(answers)
"""


def test_a_watchdog_that_missed_the_end_of_its_group(phantom_run: Command) -> None:
    """Nobody wakes it, and the clock stands still: who waits for its end has to get there."""
    environment = os.environ | {"LD_PRELOAD": str(build.libraries() / build.EXIT)}
    command = [sys.executable, "-c", WATCHDOG]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[110]"  # ETIMEDOUT


def test_times_by_hand(phantom_run: Command) -> None:
    answer = phantom_run("--gpu", "h100-80gb", "--world", "8", "--", "python", SCRIPTS / "clock.py")
    assert answer.code == 0, answer.err
    said = json.loads(answer.out.splitlines()[0])
    # The k-th request looks after record_stream and k - 1 requests, and half its own dispatch.
    looks = [DISPATCH * k + DISPATCH - LAUNCH for k in range(1, 100)]
    assert said["held"] == next(k for k, at in enumerate(looks, 1) if at >= KERNEL) == 18
    assert said["held_synchronized"] == 1
    # A ring of 8: twice 7 steps of 3400 ns, and twice 7/8 of the bytes at 0.8 of NVLink's 450 GB/s; 8400 ns to begin.
    ring = int(8400 + 2 * (7 * 3400 + 7 / 8 * BYTES * 1000 / 360_000))
    assert said["all_reduce_ns"] == DISPATCH + ring
    # The last launch waits until the kernel that is QUEUE before it is done.
    assert said["host_ns"] == DISPATCH + (1100 - QUEUE) * KERNEL
    assert said["item_ns"] == DISPATCH + 1100 * KERNEL
    # Events that are recorded take places, too.
    assert said["recorded_ns"] == DISPATCH + (600 - QUEUE // 2) * KERNEL
    assert said["sleep_ns"] == 10_000_000
    # Who asks again without having done anything waits.
    assert said["queries"] == [False, True, True]
    assert said["polled_ns"] == DISPATCH + KERNEL


def test_the_constants_are_those_of_the_timeline() -> None:
    text = (ROOT / "coopsim" / "phantom" / "csrc" / "settings.c").read_text(encoding="utf-8")
    params = load_params()
    for name, value in {
        "DISPATCH": params.dispatch_ns,
        "QUEUE": params.queue_capacity,
        "SEGMENT_ALLOC": params.segment_alloc_ns,
        "SEGMENT_FREE": params.segment_free_ns,
        "BUS": round(1000 * params.host_to_device_gb_s),
    }.items():
        assert f'number("{name}", {value})' in text


@pytest.mark.slow
def test_peaks_of_ddp_are_the_same_in_five_runs(job: Job) -> None:
    """They flipped by the buckets of one model, as NCCL's watchdog looked by this machine's time."""
    runs = [job("buckets", world=4) for _ in range(5)]
    peaks = {(run["peak_allocated_bytes"], run["peak_reserved_bytes"]) for run in runs}
    assert len(peaks) == 1
    weights = 4 * 8 * (2 * 512 * 2048 + 2048 + 512)
    found = runs[0]["peak_by_kind"]
    assert found["parameters"] == found["gradients"] == found["optimizer_state"] // 2 == weights
    # The steps together are shorter than what passes between two looks of the watchdog: it holds the first buckets.
    assert found["buckets"] == 2 * weights
