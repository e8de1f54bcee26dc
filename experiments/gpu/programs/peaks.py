"""Run a script as it is on this GPU, and write its allocator's peaks: peaks.py OUT SCRIPT [ARGUMENT …]."""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

_KINDS = ("requested", "allocated", "reserved")


def main(out: Path, script: str, arguments: list[str]) -> None:
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    failed = ""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        failed = f"exit code {end.code}" if end.code else ""
    except BaseException as error:  # whatever a script may end with
        failed = traceback.format_exception_only(error)[-1].strip()
    import torch

    stats = torch.cuda.memory_stats() if torch.cuda.is_initialized() else {}
    found = {kind: stats.get(f"{kind}_bytes.all.peak") for kind in _KINDS}
    found |= {"retries": stats.get("num_alloc_retries"), "failed": failed}
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    os._exit(0)  # whatever threads the script left
