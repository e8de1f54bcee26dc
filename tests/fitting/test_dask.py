"""A search on a Dask cluster finds what one here does, in the folder that the script is in."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.fitting import Search
from coopsim.run import Script

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'coopsim[dask]'")
SCRIPTS = Path(__file__).parent / "scripts"
MIB = 1 << 20
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("phantom_gpu")]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler in this process and two workers in their own."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as found:
        yield found.scheduler_address.replace("tcp://", "dask://")


def test_the_same_remedies(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPTS)
    it = Script(("blocks.py", "--batch", "{1024}"), card="rtx-3060", memory_bytes=300 * MIB)
    here, there = Search(it, jobs=2).run(), Search(it, executor=address).run()
    assert len(here.remedies) >= 3
    assert there.remedies == here.remedies


def test_a_worker_without_the_folder(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "cwd", lambda: Path("/no/such/folder"))
    words = (str(SCRIPTS / "blocks.py"), "--batch", "1024")
    Search(Script(words, card="rtx-3060", memory_bytes=300 * MIB), executor=address, say=said.append).run()
    assert any("has no folder /no/such/folder" in text for text in said)


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from coopsim.study.sweep import cluster

    monkeypatch.setattr(cluster, "_PATIENCE", 1)
    with pytest.raises(CoopsimError, match="no Dask scheduler answers at"):
        Search(Script(("a.py",), card="rtx-3060"), executor="dask://127.0.0.1:9").run()


def test_interrupted_it_leaves_at_once(address: str) -> None:
    words: list[Any] = ["--gpu", "rtx-3060", "--memory", "300MiB", "--executor", address]
    command = [sys.executable, "-m", "coopsim", "fit", *words, "--", SCRIPTS / "blocks.py", "--batch", "{1024}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    while "fits" not in (line := child.stderr.readline()):
        assert line, "it ended before it found anything"
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert out.startswith("Does not fit: needs ")
    assert err.splitlines()[-1] == "coopsim: interrupted"
