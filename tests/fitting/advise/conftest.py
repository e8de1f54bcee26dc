"""Snapshots that the real allocator wrote, on the phantom GPU."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STORIES = Path(__file__).parent / "stories"
collect_ignore = ["stories"]  # programs for a GPU

Told = tuple[str, Path]
Teller = Callable[..., Told]


@pytest.fixture(scope="session")
def told(phantom_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> Teller:
    """Run a story on a card of so much memory, with settings; give the outcome and the snapshot."""

    def tell(story: str, memory: str, conf: str = "") -> Told:
        out = tmp_path_factory.mktemp(story) / "snapshot.pickle"
        command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", "a100-80gb", "--memory", memory]
        command += ["--snapshot", str(out), "--", sys.executable, str(STORIES / f"{story}.py")]
        environment = os.environ | ({"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {})
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert run.returncode in (0, 3), run.stderr[-2000:]
        return ("trains" if run.returncode == 0 else "out of memory"), out

    return tell
