"""`coopsim live` as a user calls it, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from coopsim import phantom
from tests.conftest import ROOT

SCRIPT = Path(__file__).parent / "scripts" / "train.py"


def called(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "coopsim", *words], env=environment, capture_output=True, text=True)


def live(*words: str) -> subprocess.CompletedProcess[str]:
    """`live run` as a first start: none of these tests leaves plans to another."""
    return called("live", "run", "--no-cache", *words)


def coopsim(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | phantom.environment("a100-80gb") | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "coopsim", *words], env=environment, capture_output=True, text=True)
