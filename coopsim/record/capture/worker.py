"""The child process of a capture: python -m coopsim.record.capture.worker DESCRIPTOR REQUEST.

It writes messages to the descriptor, one JSON object per line: {"progress": text} while it works, and at last one of
{"done": ""}, {"error": text} and {"out_of_memory": text}.
"""

import faulthandler
import gc
import json
import os
import re
import sys
import traceback
from typing import Any

from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.record.capture import target
from coopsim.record.capture.job import Job


def main() -> None:
    """Do the job in the arguments, and end the process."""
    descriptor, job = int(sys.argv[1]), Job.from_json(sys.argv[2])
    # With `-m`, the current folder is on sys.path; a program must not find modules there by accident.
    if sys.path and sys.path[0] == os.getcwd():
        del sys.path[0]

    faulthandler.enable()

    def send(**message: str) -> None:
        os.write(descriptor, json.dumps(message).encode() + b"\n")

    try:
        gc.disable()  # imports make no garbage, but trigger collections, which take a tenth of their time
        from coopsim.record.capture import session

        gc.enable()
        session.record(job, lambda text: send(progress=text))
        send(done="")
    except BaseException as error:
        traceback.print_exc()
        send(**_explain(error, job))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a normal exit can abort in autograd's threads, which Python ends while they wait


def _explain(error: BaseException, job: Job) -> dict[str, str]:
    if isinstance(error, ImportError) and "torch" not in sys.modules:
        return {"error": f"torch cannot be imported here, which a real GPU needs with all its libraries: {error}"}
    import torch

    if isinstance(error, CoopsimError):
        return {"error": str(error)}
    if isinstance(error, torch.OutOfMemoryError):
        return {"out_of_memory": _out_of_memory(error, job)}
    if job.is_file:
        return {"error": target.blame(error, job.target)}
    first = (str(error).strip().splitlines() or [""])[0]
    return {"error": f"{job.target} failed: {type(error).__name__}: {first}"}


def _out_of_memory(error: Any, job: Job) -> str:
    """Return one line: where memory ran out, what was allocated and requested, and what limits memory."""
    import torch

    card = profiles.get(job.card)
    said = re.search(r"Tried to allocate (.+?)\. .*?Of the allocated memory (.+?) is allocated by PyTorch", str(error))
    detail = f"; {said[2]} were allocated when {said[1]} more were asked for" if said else ""
    total = torch.cuda.get_device_properties(0).total_memory
    where = f" at {target.place(error, job.target)}" if job.is_file else ""
    allowed = re.search(r"\. (\S+ \S+) allowed;", str(error))
    if allowed:
        return f"out of memory{where}: the program allows itself {allowed[1]} (set_per_process_memory_fraction){detail}"
    context = f"{human(card.context.training_bytes)} are the context's"
    has = f"the {card.title} has {total / 2**30:.2f} GiB, of which {context}{detail}"
    return f"out of memory{where}: {has}{'; leave the limit out to record it all the same' if job.limit else ''}"


if __name__ == "__main__":
    main()
