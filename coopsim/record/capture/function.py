"""A step given as a function of this process: recorded here if there is a GPU, else by its file, in a child."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from coopsim.base.errors import CaptureError
from coopsim.cards import profiles
from coopsim.phantom import CARD, here
from coopsim.record.capture import parent, target
from coopsim.record.capture.job import Job

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


def capture(step: target.Step, job: Job, card: str | None, say: Callable[[str], None]) -> None:
    """Record calls of `step` as the job says, whose target is not looked at, and write the trace.

    card: the one to record for; None: that of this process, or the job's. Raises CoopsimError for what cannot be
    recorded, and what the function raises.
    """
    parent.refuse_within()
    present = here.here()
    named = target.of_function(step)
    if present is None and job.device != "cuda":
        if named is None:
            raise CaptureError(
                f"{_name(step)} is no function at the top of a file, and this process has no phantom GPU to record it: "
                "before `import torch`, call coopsim.phantom_gpu, or in a notebook %load_ext coopsim"
            )
        parent.capture(replace(job, target=named, card=card or job.card), say)
        return
    for what, who in _ELSEWHERE.items():
        if getattr(job, what) not in (None, "", False):
            raise CaptureError(f"{what}: {who}")
    if present is not None and job.device != "cuda":
        if card is not None and profiles.get(card) != present:
            raise CaptureError(f"this process has a phantom {present.title}; start it anew for another card")
        card = os.environ[CARD]
    parent.check(job)
    name = Path(named).name if named else _name(step)
    about = {"model": target.label(named) if named else name, "title": name, "command": f"coopsim.capture({name})"}
    from coopsim.record.capture import session

    session.record_here(step, about, replace(job, target=name, card=card or job.card).absolute(), say)


def _name(step: target.Step) -> str:
    name = getattr(step, "__name__", None) or type(step).__name__
    return name if name.isidentifier() else "step"
