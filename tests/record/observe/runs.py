"""Programs on the stand-in driver, with nobody who watches, and by way of `coopsim phantom run`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from coopsim import phantom

HERE = Path(__file__).parent / "programs"
CARD = "a100-80gb"
KINDS = "requested", "allocated", "reserved"

#: Runs a script, and writes its peaks to the file that is named first.
PLAIN = """
import atexit, json, runpy, sys
def end():
    import torch
    stats = torch.cuda.memory_stats()
    with open(out, "w") as file:
        json.dump([stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")], file)
atexit.register(end)
out, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def plain(*words: object) -> None:
    """Run Python on the stand-in driver, with nobody who watches."""
    environment = os.environ | phantom.environment(CARD)
    done = subprocess.run([sys.executable, *map(str, words)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def watched(*words: object, options: tuple[object, ...] = ()) -> dict[str, Any]:
    """The same by way of `coopsim phantom run`; its report."""
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--json", *options, "--", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
