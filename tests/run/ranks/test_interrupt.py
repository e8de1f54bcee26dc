"""However a job ends, no process of it stays."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import alive, until
from tests.run.ranks.conftest import Command

WAITS = """\
import os, pathlib, subprocess, sys, time, torch, torch.distributed as dist
dist.init_process_group("nccl")
helper = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
folder = pathlib.Path(sys.argv[1])
(folder / f"{dist.get_rank()}.part").write_text(f"{os.getpid()} {helper.pid} {os.environ['MASTER_PORT']}")
(folder / f"{dist.get_rank()}.part").rename(folder / f"{dist.get_rank()}.started")
time.sleep(600)
"""
RANKS = 2


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_rank_stays(how: signal.Signals, tmp_path: Path, phantom_run: Command) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    words = ("--world", str(RANKS), "--ranks", "all", "--", "python", str(tmp_path / "waits.py"), str(tmp_path))
    with open(tmp_path / "stderr", "w") as stderr:
        parent = subprocess.Popen([sys.executable, "-m", "coopsim", "phantom", "run", *words], stderr=stderr)
    assert until(lambda: len(list(tmp_path.glob("*.started"))) == RANKS, 120)
    told = [[int(n) for n in file.read_text().split()] for file in tmp_path.glob("*.started")]
    ranks, helpers, ports = zip(*told, strict=True)
    assert all(map(alive, (*ranks, *helpers)))
    os.kill(parent.pid, how)
    parent.wait(timeout=60)
    gone = ranks if how is signal.SIGKILL else (*ranks, *helpers)  # nobody is left who could end what a rank started
    try:
        assert until(lambda: not any(map(alive, gone)), 20)
        listening = {line.split()[1].rpartition(":")[2] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
        assert f"{ports[0]:04X}" not in listening
    finally:
        for pid in (*ranks, *helpers):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
    if how is not signal.SIGKILL:
        said = (tmp_path / "stderr").read_text().splitlines()
        assert (parent.returncode, said[-1]) == (130, "coopsim: interrupted")
