"""What runs in one thread is ended by another, with all that it has started."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coopsim.script.ranks import processes
from coopsim.script.running.start import Running

#: Starts a process that waits, says both numbers, and waits for it.
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(os.getpid(), child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("together", [True, False])
def test_ranks_that_another_thread_runs_are_ended_with_what_they_started(tmp_path: Path, together: bool) -> None:
    running = Running()
    out = [tmp_path / "0", tmp_path / "1"]
    for file in out:
        os.mkfifo(file)
    shell = [f'exec "{sys.executable}" -c "$PARENT" > "{file}"' for file in out]
    ranks = [processes.Process(["sh", "-c", text], {**os.environ, "PARENT": PARENT}) for text in shell]
    thread = threading.Thread(target=processes.run, args=(ranks, running), kwargs={"together": together})
    thread.start()
    waiting = [file.open() for file in out[: 2 if together or (os.cpu_count() or 1) > 1 else 1]]
    pids = [int(pid) for file in waiting for pid in file.readline().split()]
    running.end_all()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(pids) == 2 * len(waiting)
    for file in waiting:
        assert file.read() == ""  # all that held the pipe open are gone
    assert {rank.code for rank in ranks} <= {-9, None}


def test_what_is_started_afterwards_is_ended_at_once() -> None:
    running = Running()
    running.end_all()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    running.add(child)
    assert child.wait(timeout=60) == -9
    running.end(child)
