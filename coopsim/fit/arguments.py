"""Remedies that Hugging Face's TrainingArguments make: one argument, set in the user's call or as an option."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.edits import Edit, lines
from coopsim.fit.given import with_option
from coopsim.fit.remedy import Remedy
from coopsim.types import CoopsimError


def proposal(case: Case, kind: str, text: str, argument: str, changes: Changes, *, same: bool) -> Iterator[Remedy]:
    """Yield the remedy, not tried yet, that sets `argument` to True; nothing if the script makes no TrainingArguments.

    changes: what stands for it where the user's call is not in one certain place.
    """
    made = case.survey.given.arguments
    if made is None or not made.by:
        return
    if made.by == "options":
        command = with_option(case.trials.script.command, f"--{argument}", "True")
        line = (shlex.join(("python", *command) if command[0].endswith(".py") else command),)
        told = replace(changes, printed=(f"{argument}=True",))
        yield case.proposal(kind, text, line, told, same=same, command=command)
        return
    edit = Edit(made.file, made.line, made.type, ((argument, -1, "True"),))
    try:
        said = lines((edit,))
    except CoopsimError:
        return
    yield case.proposal(kind, text, said, replace(changes, printed=(f"{argument}=True",)), same=same, edits=(edit,))
