"""What `coopsim … --json` answers, kept in a folder so that an interrupted experiment goes on where it was."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from coopsim.base.types import CoopsimError

ROOT = Path(__file__).parents[2]
#: Exit codes that are answers: it fits, it is out of memory, it thrashes.
ANSWERS = (0, 3, 4)


def ask(kept: Path, *words: str, **variables: str) -> dict[str, Any]:
    """The JSON that the command prints; from the file `kept`, if it is there. CoopsimError if the command fails."""
    if not kept.exists():
        print(kept.stem, file=sys.stderr, flush=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "coopsim", *words]
        run = subprocess.run(  # noqa: S603
            command, env=os.environ | variables, check=False, capture_output=True, text=True
        )
        if run.returncode not in ANSWERS:
            lines = run.stderr.splitlines()
            raise CoopsimError(f"{kept.stem}: {lines[-1] if lines else run.returncode}")
        part = kept.with_name(f"{kept.name}.part")
        part.write_text(run.stdout, encoding="utf-8")
        part.replace(kept)
    answer: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return answer
