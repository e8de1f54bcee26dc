"""The parent's side of a capture: check the job, start the child, and read its messages."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from coopsim import phantom
from coopsim.base import files
from coopsim.base.capture_options import CaptureOptions
from coopsim.base.errors import CaptureError, CaptureOutOfMemory
from coopsim.base.option import checked, declared
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.phantom import CARD
from coopsim.record.capture import models, target
from coopsim.record.capture.job import Job

_CAPTURES = "COOPSIM_CAPTURES"  #: a variable of the child's
_NOUNS = {"batch": "a batch size", "optimizer": "a choice of optimizer", "attention": "a kind of attention"}
#: What only a child of its own can be given, and who decides of it here.
_ELSEWHERE = {
    "batch": "the function makes its own",
    "optimizer": "the function makes its own",
    "amp": "the function sets its own",
    "attention": "the function sets its own",
    "gradients": "the function sets its own",
    "workspaces": "that is for coopsim.phantom_gpu",
    "limit": "that is for coopsim.phantom_gpu",
}


def capture(job: Job, progress: Callable[[str], None] | None = None) -> None:
    """Record consecutive training steps, as the job says, and write them as a trace.

    progress is called with short lines of text. The trace is written only if everything succeeds.

    Raises CaptureOutOfMemory if the step needs more than the card has and the job has a limit, CaptureError if it
    cannot be recorded, PhantomError if torch, its CUDA build or a C compiler is missing.
    """
    refuse_within()
    job = job.absolute()
    check(job)
    _check_target(job)
    say = progress or (lambda _: None)
    variables = os.environ | _place(job, say) | {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", _CAPTURES: "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        code, answer = _run(job, variables, output, say)
        if answer is None:
            raise CaptureError(f"the capture's process {_manner(code)}{_last_words(output)}")
    match answer:
        case {"out_of_memory": text}:
            raise CaptureOutOfMemory(text)
        case {"error": text}:
            raise CaptureError(text)


def _place(job: Job, say: Callable[[str], None]) -> dict[str, str]:
    """Prepare the device of the job, and return the variables that the child needs in its environment."""
    if job.device == "phantom":
        say("preparing the phantom GPU")
        return phantom.environment(job.card, limit=job.limit, workspaces=job.workspaces) | phantom.compiler_caches()
    return {}


def refuse_within() -> None:
    """Raise CaptureError in a process that captures already: a file that captures itself would never end."""
    if os.environ.get(_CAPTURES):
        raise CaptureError('a file that is captured captures: put the call under `if __name__ == "__main__":`')


def check(job: Job) -> None:
    """Raise CoopsimError for what can be refused before anything runs, whatever the target is."""
    phantom.profiles.get(job.card)
    try:
        checked(CaptureOptions, "capture", {name: getattr(job, name) for name in declared(CaptureOptions)})
    except CoopsimError as e:
        raise CaptureError(str(e)) from None
    if job.masks and job.device != "phantom":
        raise CaptureError("what masks keep is a question of the phantom GPU; leave --masks out")
    if job.workspaces and job.device != "phantom":
        raise CaptureError("what cuDNN asks for is a question of the phantom GPU; leave --workspaces out")
    if job.limit and job.device != "phantom":
        raise CaptureError("the limit is the phantom GPU's; leave --limit out")
    files.target(str(job.out))


def _check_target(job: Job) -> None:
    if job.is_file:
        for what in ("batch", "optimizer", "amp", "attention", "gradients"):
            if getattr(job, what) is not None:
                raise CaptureError(f"{_NOUNS.get(what, what)} is for the reference models; a file sets its own")
        if job.device == "cuda" and job.precision is not None:
            raise CaptureError("on a real GPU a file computes in the precision that it sets; leave --precision out")
        target.split(job.target)
    elif models.get(job.target).attention is None and job.attention is not None:
        raise CaptureError(f"{job.target} has no attention, so there is none to choose")


def _run(
    job: Job, variables: dict[str, str], output: IO[str], say: Callable[[str], None]
) -> tuple[int, dict[str, str] | None]:
    """Run the child to its end; return its exit code and its final message, None without one.

    The child's stdout and stderr go to `output`.
    """
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "coopsim.record.capture.worker", str(writing), job.to_json()]
    with open(reading, encoding="utf-8") as messages:
        try:
            child = subprocess.Popen(  # noqa: S603
                command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[writing]
            )
        finally:
            os.close(writing)
        answer = None
        try:
            for line in messages:
                message = json.loads(line)
                if "progress" in message:
                    say(message["progress"])
                else:
                    answer = message
            return child.wait(), answer
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            child.wait()


def _manner(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code} and no answer"


def _last_words(output: IO[str]) -> str:
    """Return the end of an error message: where the interpreter crashed, or else the child's last line."""
    output.seek(0)
    lines = [line.strip() for line in output if line.strip()]
    fatal = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    if fatal is not None:
        at = next((line for line in lines[fatal:] if line.startswith("File ")), "")
        found = re.match(r'File "(.*)", line (\d+)', at)
        return f" ({lines[fatal]}" + (f", at {Path(found[1]).name}:{found[2]})" if found else ")")
    return f"; its last line: {lines[-1][:300]}" if lines else ""


def capture_function(step: target.Step, job: Job, card: str | None, say: Callable[[str], None]) -> None:
    """Record calls of `step` as the job says, whose target is not looked at, and write the trace.

    card: the one to record for; None: that of this process, or the job's. Raises CoopsimError for what cannot be
    recorded, and what the function raises.
    """
    refuse_within()
    from coopsim.phantom import here

    present = here.here()
    named = target.of_function(step)
    if present is None and job.device != "cuda":
        if named is None:
            raise CaptureError(
                f"{_name(step)} is no function at the top of a file, and this process has no phantom GPU to record it: "
                "before `import torch`, call coopsim.phantom_gpu, or in a notebook %load_ext coopsim"
            )
        capture(replace(job, target=named, card=card or job.card), say)
        return
    for what, who in _ELSEWHERE.items():
        if getattr(job, what) not in (None, "", False):
            raise CaptureError(f"{what}: {who}")
    if present is not None and job.device != "cuda":
        if card is not None and profiles.get(card) != present:
            raise CaptureError(f"this process has a phantom {present.title}; start it anew for another card")
        card = os.environ[CARD]
    check(job)
    name = Path(named).name if named else _name(step)
    about = {"model": target.label(named) if named else name, "title": name, "command": f"coopsim.capture({name})"}
    from coopsim.record.capture import session

    session.record_here(step, about, replace(job, target=name, card=card or job.card).absolute(), say)


def _name(step: target.Step) -> str:
    name = getattr(step, "__name__", None) or type(step).__name__
    return name if name.isidentifier() else "step"
