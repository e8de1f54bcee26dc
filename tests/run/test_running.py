"""What runs in one thread is ended by another, with all that it has started."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coopsim.run.launch.start import Running
from coopsim.run.ranks import job
from tests.run.command import phantom_run, report_of

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
    ranks = [job.Process(["sh", "-c", text], {**os.environ, "PARENT": PARENT}) for text in shell]
    thread = threading.Thread(target=job.run_all, args=(ranks, running), kwargs={"together": together})
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


PACKAGE = """
import torch
def main():
    kept = []
    net = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(7):
        y = net(torch.randn(4096, 256, device="cuda"))
        y.mean().backward()
        optimizer.step()
        kept.append(y.detach())
    raise ValueError("its own error")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_the_program_of_a_console_script(tmp_path: Path) -> None:
    """Its lines are named, as those of a file of one's own, and not the line of the script that calls it."""
    package = tmp_path / "lib/site-packages/trainer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "cli.py").write_text(PACKAGE)
    script = tmp_path / "train.py"
    stub = f"import sys\nsys.path.insert(0, {str(package.parent)!r})\nfrom trainer.cli import main\nsys.exit(main())\n"
    script.write_text(stub)
    _, _, said = phantom_run("--", "python", script)
    assert said.splitlines()[-1] == "coopsim: trainer/cli.py:12: ValueError: its own error"
    (package / "cli.py").write_text(PACKAGE.replace("    raise", "    print").replace("ValueError", ""))
    assert report_of("--", "python", script)["growth"]["kept_in"][0]["place"] == "trainer/cli.py:11"
