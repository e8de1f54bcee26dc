"""Remedies that Hugging Face's TrainingArguments make: one argument, set in the user's call."""

from dataclasses import replace

from coopsim.base.types import CoopsimError
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.edits import Edit, lines
from coopsim.fitting.remedy import Remedy


def proposal(
    bench: Bench, kind: str, text: str, argument: str, changes: Changes, *, same: bool, value: str = "True"
) -> Remedy | None:
    """Return the remedy, not tried yet, that sets `argument` to `value`; None if no call makes it certain.

    changes: what stands for it where the user's call is not in one certain place.
    """
    made = bench.survey.given.arguments
    if made is None or not made.by:
        return None
    told = replace(changes, printed=(f"{argument}={value}",))
    code = value if value == "True" else f'"{value}"'
    edit = Edit(made.file, made.line, made.type, ((argument, -1, code),))
    try:
        return bench.proposal(kind, text, lines((edit,)), told, same=same, edits=(edit,))
    except CoopsimError:
        return None
