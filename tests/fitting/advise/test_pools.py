"""Snapshots of programs with CUDA graphs and MemPools: every request comes from its pool, at the recorded place."""

from pathlib import Path

import numpy as np
import pytest

from coopsim.cards import wheel
from coopsim.fitting.advise.selfcheck import check
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace.request_rows import ALLOCATE, KIND, RELEASE
from coopsim.trace.snapshot import read
from coopsim.trace.snapshot.requests import device_bytes, of_snapshot
from tests.conftest import Runner

PROGRAM = """
import pickle, torch

M = 2**20
record = lambda: torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2**20)
if {early}:
    record()
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
x = torch.randn(512, 1024, device="cuda")

def step():
    model(x).square().mean().backward()

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    step()
torch.cuda.current_stream().wait_stream(side)
model.zero_grad(set_to_none=True)
graph, other, pool = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph(), torch.cuda.MemPool()
with torch.cuda.graph(graph):
    step()
if not {early}:
    record()
with torch.cuda.graph(other, pool=graph.pool()):
    y = x * 2
    z = y + torch.ones(7 * M, device="cuda")[:1024]
with torch.cuda.use_mem_pool(pool):
    kept = [torch.empty(n * M // 3, device="cuda") for n in (1, 2, 5, 9, 30)]
    del kept[1], kept[2]
a = torch.empty(40 * M, device="cuda")
for _ in range(3):
    graph.replay()
    other.replay()
del graph, other, y, z
model.zero_grad(set_to_none=True)
torch.cuda.empty_cache()
del kept, pool
b = torch.empty(30 * M, device="cuda")
if {full}:
    held = []
    try:
        while True:
            held.append(torch.empty(100 * M, device="cuda"))
    except torch.OutOfMemoryError:
        pass
with open({out!r}, "wb") as file:
    pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
answer(True)
"""


@pytest.mark.parametrize(
    ("conf", "early", "full"),
    [("", True, False), ("", True, True), ("expandable_segments:True", True, False), ("", False, False)],
)
def test_served_as_recorded(conf: str, early: bool, full: bool, on_phantom: Runner, tmp_path: Path, coopsim) -> None:
    out = tmp_path / "s.pickle"
    variables = {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
    assert on_phantom(PROGRAM.format(out=str(out), early=early, full=full), total_bytes=4 << 30, **variables)
    snapshot = read(out)
    private = {e.pool for e in snapshot.events} - {(0, 0)}
    assert len(private) == 2
    requests = of_snapshot(snapshot, total_bytes=device_bytes(snapshot))
    assert (requests.rows[:, KIND] == RELEASE).any()
    version = wheel.find().version.partition("+")[0]
    found = check(snapshot, requests, torch=version, total_bytes=device_bytes(snapshot))
    assert found.whole, found.message
    assert found.placed == found.requests >= 10
    allocator = CachingAllocator(version, conf, device_bytes(snapshot) or 1 << 45, driver="cuda")
    answers, _ = allocator.run(requests.rows)
    recorded = {(s.nbytes, s.stream, s.pool != (0, 0)) for s in snapshot.segments}
    assert {(s.bytes, s.stream, s.pool > 0) for s in allocator.segments()} == recorded
    if early and not conf:
        takes = np.flatnonzero(requests.rows[:, KIND] == ALLOCATE)
        served = takes[answers[takes] >= 0]
        assert [snapshot.events[at].address for at in requests.source[served]] == answers[served].tolist()
    assert coopsim("advise", out, "--memory", "8GiB").code == 0
