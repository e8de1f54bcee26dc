"""Programs that train inside budgets run in child processes, on the phantom GPU's torch."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from coopsim import phantom
from coopsim.phantom import build
from tests.conftest import ROOT

Child = Callable[..., Any]
collect_ignore = ["scripts", "programs.py", "compare.py", "in_arena.py"]  # what child processes run


@pytest.fixture(scope="session")
def child() -> Child:
    """Run Python text and give what it hands to `answer(...)`. Skips where the phantom GPU cannot be had."""
    try:
        build.libraries()
    except phantom.PhantomError as reason:
        pytest.skip(str(reason))

    def run(text: str, **variables: str) -> Any:
        head = "import json, os\ndef answer(x): print(json.dumps(x), flush=True); os._exit(0)\n"
        environment = os.environ | phantom.environment("a100-80gb") | variables
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
        done = subprocess.run([sys.executable, "-c", head + text], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run
