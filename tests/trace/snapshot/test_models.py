"""The allocator's history of each reference model, two steps from the first request on, replays to the same addresses.

With the torch that is installed, and with the one that COOPSIM_CUDA12_PYTHON names.
"""

from pathlib import Path

import numpy as np
import pytest

from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.snapshot import read
from coopsim.trace.snapshot.requests import of_snapshot
from tests.conftest import Runner
from tests.phantom import cuda12

EIGHT = ["resnet-50", "inception-v3", "unet", "swin-t", "bert-large", "bilstm", "spos", "gpt3-2.7b"]
QUICK = "unet"

PROGRAM = """
import pickle, torch
from coopsim.record.capture import models
torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2**22)
model = models.get({name!r})
step = model.build(model.setting())
step()
step()
with open({out!r}, "wb") as file:
    pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
answer(torch.__version__)
"""


def same_addresses(version: str, out: Path) -> None:
    """Every request at its address: the phantom puts segments where the simulated driver of a card does."""
    snapshot = read(out)
    requests = of_snapshot(snapshot)
    assert requests.prologue == 0
    allocator = CachingAllocator(version.partition("+")[0], "", 80 << 30, driver="cuda")
    answers, _ = allocator.run(requests.rows)
    takes = requests.rows[:, KIND] == ALLOCATE
    recorded = np.array([snapshot.events[at].address for at in requests.source[takes]])
    assert len(recorded) > 500
    assert np.array_equal(answers[takes], recorded)
    assert allocator.statistics()["reserved_bytes.current"] == sum(s.nbytes for s in snapshot.segments)


@pytest.mark.parametrize("name", [pytest.param(m, marks=[] if m == QUICK else pytest.mark.slow) for m in EIGHT])
def test_installed_torch(name: str, on_phantom: Runner, tmp_path: Path) -> None:
    out = tmp_path / "s.pickle"
    same_addresses(on_phantom(PROGRAM.format(name=name, out=str(out))), out)


@pytest.mark.slow
@pytest.mark.skipif(not cuda12.PYTHON, reason="COOPSIM_CUDA12_PYTHON names no Python with torch for CUDA 12")
@pytest.mark.parametrize("name", EIGHT)
def test_older_torch(name: str, tmp_path: Path) -> None:
    out = tmp_path / "s.pickle"
    same_addresses(cuda12.on_cuda12(PROGRAM.format(name=name, out=str(out)), "a100-80gb"), out)
