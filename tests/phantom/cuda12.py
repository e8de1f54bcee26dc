"""Programs on a Python whose torch is for CUDA 12, which COOPSIM_CUDA12_PYTHON names."""

import json
import os
import subprocess
from typing import Any

from tests.conftest import ROOT

PYTHON = os.environ.get("COOPSIM_CUDA12_PYTHON")


CARD = "rtx-4060"


def on_cuda12(text: str, card: str = CARD, **variables: str) -> Any:
    """Run Python text on the card, with that interpreter's own stand-in libraries; give what it hands to `answer`."""
    start = f"import os, sys; from coopsim import phantom; os.environ.update(phantom.environment({card!r})); "
    start += "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    program = f"import json, os\ndef answer(x): print(json.dumps(x), flush=True); os._exit(0)\n{text}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    child = subprocess.run([str(PYTHON), "-c", start, program], env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-3000:]
    return json.loads(child.stdout.splitlines()[-1])
