"""Ranks that a script starts itself, and Gloo with tensors on the card."""

import json

import pytest

from tests.run.ranks.conftest import SCRIPTS, Command

SPAWN = str(SCRIPTS / "spawn.py")


@pytest.mark.parametrize("ranks", ["0", pytest.param("all", marks=pytest.mark.slow)])
def test_mp_spawn_with_gloo(ranks: str, phantom_run: Command) -> None:
    """DistributedDataParallel reads its sums from Gloo; Gloo takes nothing of the card for itself."""
    answer = phantom_run("--json", "--ranks", ranks, "--", "python", SPAWN, "gloo")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert (report["world_size"], report["steps"], report["nccl_bytes"]) == (2, 2, 0)
    assert report["peak_by_kind"]["buckets"] > 0
    assert len(report["ranks"]) == (2 if ranks == "all" else 1)


@pytest.mark.slow
def test_mp_spawn_with_nccl(phantom_run: Command) -> None:
    report = json.loads(phantom_run("--json", "--", "python", SPAWN, "nccl").out)
    assert (report["world_size"], report["steps"]) == (2, 2)
    assert report["nccl_bytes"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["0", "all"])
def test_the_error_of_a_rank_is_shown(ranks: str, phantom_run: Command) -> None:
    answer = phantom_run("--ranks", ranks, "--", "python", SPAWN, "gloo", "fail")
    assert answer.code == 2
    assert "spawn.py:24: ValueError: its own error" in answer.last_line


@pytest.mark.slow
def test_the_error_of_a_process_of_ones_own_is_shown(
    phantom_run: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("own") / "train.py"
    file.write_text(
        "import torch\nimport torch.multiprocessing as mp\ndef work(rank):\n    raise ValueError('its own error')\n"
        "if __name__ == '__main__':\n    torch.ones(1, device='cuda')\n    mp.spawn(work, nprocs=1)\n"
    )
    answer = phantom_run("--", "python", file)
    assert (answer.code, answer.last_line) == (2, "coopsim: train.py:4: ValueError: its own error")


NO_SPAWN = """
import sys
import torch
import torch.multiprocessing as mp

def train(rank=None):
    net = torch.nn.Linear(64, 64).cuda()
    net = torch.nn.DataParallel(net) if rank is None else net
    net(torch.ones(64, 64, device="cuda")).sum().backward()

if __name__ == "__main__":
    print(torch.cuda.device_count())
    mp.spawn(train, nprocs=torch.cuda.device_count()) if "--spawn" in sys.argv else train()
"""


@pytest.mark.slow
def test_cards_are_those_of_what_runs(
    phantom_run: Command, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that could spawn, and does not, finds one card; one that spawns a process per card, eight."""
    file = tmp_path_factory.mktemp("own") / "train.py"
    file.write_text(NO_SPAWN)
    answer = phantom_run("--", "python", file)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[0] == "1"
    assert json.loads(phantom_run("--json", "--", "python", file, "--spawn").out)["world_size"] == 8
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert json.loads(phantom_run("--json", "--", "python", file, "--spawn").out)["world_size"] == 2
    answer = phantom_run("--", "python", file)
    assert answer.last_line.endswith(
        "ncclCommInitAll: one process with several cards is not simulated (CUDA_VISIBLE_DEVICES=0 shows one)"
    )
