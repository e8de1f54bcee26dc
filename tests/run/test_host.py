"""Memory of the host: the process's own, its workers', what is pinned, and the lines that did it."""

import json
import sys
import threading
from pathlib import Path

import pytest

from coopsim.run.launch import host_limit
from tests.run.command import phantom_run, report_of_text

pytestmark = pytest.mark.usefixtures("phantom_gpu")
MIB = 1 << 20

TEXT = """
import time
import torch
from torch.utils.data import DataLoader


class Zeros(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.ones(1 << 18)


net = torch.nn.Linear(1 << 18, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = torch.ones(KEPT << 18)
pinned = torch.zeros(16 << 18).pin_memory()
for x in DataLoader(Zeros(), batch_size=4, num_workers=2, pin_memory=True):
    net(x.cuda(non_blocking=True)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(1.1)
"""


@pytest.mark.slow
def test_the_host(tmp_path: Path) -> None:
    less, more = (report_of_text(tmp_path, TEXT.replace("KEPT", kept))["host"] for kept in ("50", "350"))
    assert more["peak_rss_bytes"] - less["peak_rss_bytes"] == pytest.approx(300 * MIB, rel=0.05)
    assert more["workers"]["count"] == 2
    assert more["workers"]["peak_rss_bytes"] > 2 * 100 * MIB
    assert [loader["workers"] for loader in more["loaders"]] == [2]
    assert more["loaders"][0]["place"] == "train.py:19"
    assert more["pinned_bytes"] >= (16 + 4) * MIB
    assert {"place": "train.py:18", "bytes": 16 * MIB} in more["pinned_by"]


@pytest.mark.slow
def test_what_is_on_the_device_is_not_the_host_s(tmp_path: Path) -> None:
    text = TEXT.replace("KEPT", "50").replace("pinned =", "there = torch.ones(600 << 18).cuda()\npinned =")
    on_card = report_of_text(tmp_path, text)["host"]["peak_rss_bytes"]
    freed = report_of_text(tmp_path, text.replace(".cuda()\npinned", "\ndel there\npinned"))["host"]["peak_rss_bytes"]
    assert on_card == pytest.approx(freed, rel=0.1)


LITTLE = """
import time
import torch
from coopsim.run.launch import host_limit

net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    net(torch.zeros(8, 64, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
host_limit.free = lambda: (FREE << 20, 8 << 30)
time.sleep(0.3)
torch.empty(2 << 30, dtype=torch.uint8)
time.sleep(10)
"""


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (1024, "train.py:14: the host's memory runs out: RuntimeError: "),
        (100, "train.py:13: the host's memory runs out: 100 MiB of 8 GiB"),
    ],
)
def test_the_host_runs_out(free: int, said: str, tmp_path: Path) -> None:
    """Of one allocation that is too large, and piece by piece: what was known is printed, the reason goes to stderr."""
    (tmp_path / "train.py").write_text(LITTLE.replace("FREE", str(free)))
    code, out, err = phantom_run("--json", "--gpu", "rtx-3060", "--", "python", tmp_path / "train.py")
    assert code == 2
    assert err.splitlines()[-1].startswith(f"coopsim: {said}")
    assert json.loads(out)["steps"] == 5
    assert json.loads(out)["host_ran_out"].startswith(said)


EARLY = """
import time
import torch

torch.cuda.init()
time.sleep(0.5)  # as a checkpoint is read
torch.empty(40 << 30, dtype=torch.uint8, device="cuda")
"""


def test_a_script_that_starts_cuda_early_has_all_of_the_card(tmp_path: Path) -> None:
    """What the host may take is limited; the addresses of the card's memory are not of it."""
    assert report_of_text(tmp_path, EARLY, "--gpu", "a100-80gb")["peak_reserved_bytes"] == 40 << 30


def test_what_was_read_from_files_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a container counts files that were read, which the kernel gives back at once."""
    monkeypatch.setattr(host_limit, "_GROUP", tmp_path)
    (tmp_path / "memory.max").write_text(f"{64 * MIB}\n")
    (tmp_path / "memory.current").write_text(f"{60 * MIB}\n")
    assert host_limit.free() == (4 * MIB, 64 * MIB)
    (tmp_path / "memory.stat").write_text(f"anon {MIB}\ninactive_file {40 * MIB}\nslab_reclaimable {2 * MIB}\n")
    assert host_limit.free() == (46 * MIB, 64 * MIB)
    (tmp_path / "memory.max").write_text("max\n")
    assert host_limit.free() != (46 * MIB, 64 * MIB)


def test_nothing_is_looked_at_any_more_once_python_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that asks while modules are taken apart: TypeError: 'NoneType' object is not callable."""
    asked, goes_on = threading.Event(), threading.Event()

    def free() -> tuple[int, int]:
        if threading.current_thread() is not threading.main_thread():
            asked.set()
            goes_on.wait(0.2)
        return 4 << 30, 8 << 30

    monkeypatch.setattr(host_limit, "free", free)
    monkeypatch.setattr(host_limit, "_EVERY_S", 0)
    monkeypatch.setattr(host_limit, "Control", lambda: None)
    monkeypatch.delitem(sys.modules, "torch.cuda", raising=False)
    limit = host_limit.HostLimit(pytest.fail)
    assert asked.wait(10)
    limit.stop()
    assert "coopsim-host-limit" not in {thread.name for thread in threading.enumerate()}
