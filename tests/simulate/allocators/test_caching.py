"""Replays in PyTorch's caching allocator: judged sound, with its own addresses, under its settings."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from coopsim.base.types import Action
from coopsim.simulate.allocators import cuda_caching
from coopsim.simulate.allocators.caching import case
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.simulate.replay import replay
from coopsim.study.validate import Reason, validate
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import make
from tests.conftest import ROOT

CONFS = ("", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4")


def in_caching(trace: Trace, policy: str, ratio: float, steps: int = 2, **options: str) -> Schedule:
    budget = int(ratio * peak_bytes(trace, 512))
    return replay(trace, policy, budget, cuda_caching(**options), steps=steps)


@pytest.mark.parametrize("torch", ["2.6.0", "2.12.1", "2.15.0"])
@pytest.mark.parametrize("conf", CONFS)
@pytest.mark.parametrize("policy", ["dtr", "coop"])
def test_the_judge_passes_every_setting(bert: Trace, policy: str, conf: str, torch: str) -> None:
    for ratio in (1.1, 0.7, 0.4):
        schedule = in_caching(bert, policy, ratio, torch=torch, conf=conf)
        assert validate(schedule, bert) == []
        assert schedule.header["peak_reserved_bytes"] <= schedule.header["budget_bytes"]
        assert (schedule.header["torch"], schedule.header["alloc_conf"]) == (torch, conf)


@pytest.mark.parametrize("conf", CONFS)
def test_addresses_are_those_of_the_allocator(bert: Trace, conf: str) -> None:
    """Without evictions a replay only makes requests, and the allocator alone gives the same addresses."""
    schedule = in_caching(bert, "dtr", 2.0, conf=conf)
    assert schedule.header["evictions"] == 0
    ops, addresses = list[str](), list[int]()
    at: dict[int, int] = {}
    for action, *_, address, nbytes, _, _ in schedule.rows():
        if action == Action.ALLOC:
            at[address] = len(addresses)
            ops.append(f"a {len(addresses)} {nbytes} 0")
            addresses.append(address)
        elif action in (Action.FREE, Action.RELEASE):
            ops.append(f"f {at[address]}")
    alone = CachingAllocator("2.15.0", conf, schedule.header["budget_bytes"])
    answers, _ = alone.run(case.read(ops))
    assert [int(a) for a, op in zip(answers, ops, strict=True) if op[0] == "a"] == addresses
    assert alone.statistics()["reserved_bytes.peak"] == schedule.header["peak_reserved_bytes"]


def digest(schedule: Schedule) -> str:
    """All actions, without what the clock on the wall says."""
    return hashlib.sha256(np.array(schedule.rows()).tobytes()).hexdigest()


def test_interpreted_is_the_same() -> None:
    code = (
        "from coopsim.simulate.kernel.reference import Bundle\nfrom tests.strict import make_strict\n"
        "make_strict(Bundle)\n"
        "from tests.simulate.allocators.test_caching import *\n"
        "for conf in CONFS:\n    for policy in ('dtr', 'coop'):\n"
        "        print(digest(in_caching(make('synth:unet:4'), policy, 0.8, conf=conf)))"
    )
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    compiled = [
        digest(in_caching(make("synth:unet:4"), policy, 0.8, conf=conf)) for conf in CONFS for policy in ("dtr", "coop")
    ]
    assert run.stdout.split() == compiled


def test_small_arrays_are_made_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    from coopsim.simulate.allocators.caching.memory import CachingMemory

    wanted = digest(in_caching(make("synth:tree:4"), "coop", 0.6))
    begin = CachingMemory.__init__

    def small(self: CachingMemory, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        self.blocks = 16

    monkeypatch.setattr(CachingMemory, "__init__", small)
    assert digest(in_caching(make("synth:tree:4"), "coop", 0.6)) == wanted


def test_the_judge_knows_that_memory_is_segments() -> None:
    trace = make("synth:unet:4")
    schedule = in_caching(trace, "lru", 1.5)
    far = schedule.address >= 0
    schedule.address[far] += 1 << 40  # anywhere is fine
    assert validate(schedule, trace) == []
    schedule.header["peak_reserved_bytes"] = schedule.header["budget_bytes"] + 1
    assert [f.reason for f in validate(schedule, trace)] == [Reason.BAD_HEADER]
    del schedule.header["peak_reserved_bytes"]
    assert [f.reason for f in validate(schedule, trace)] == [Reason.BAD_HEADER]
    schedule.header["budget_bytes"] = 1 << 20
    schedule.header["peak_reserved_bytes"] = 1 << 20
    assert Reason.OVER_BUDGET in {f.reason for f in validate(schedule, trace)}


def test_refusals_do_not_hide_the_map(bert: Trace) -> None:
    from coopsim.study.figures.residences import residences

    schedule = in_caching(bert, "dtr", 0.5)
    assert (schedule.action == Action.REFUSE).any()
    stays = residences(schedule, bert)
    assert len(stays) > 1000
    assert (stays.address >= 0).all()
