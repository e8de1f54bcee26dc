"""Optimizers that keep less state than Adam: in 8 bits, or in rows and columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util

from coopsim.fit import source
from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.edits import Edit, abbreviated, calls, lines
from coopsim.fit.given import with_option
from coopsim.fit.remedy import Remedy
from coopsim.types import CoopsimError

#: Arguments of torch.optim's that neither of the others has.
_OF_TORCH = ("foreach", "fused", "capturable", "differentiable", "amsgrad", "maximize", "decoupled_weight_decay")


@dataclass(frozen=True)
class _Kind:
    """In place of Adam and AdamW. name: Hugging Face's. saves: of Adam's state, at most. package: where it is."""

    text: str
    name: str
    saves: float
    package: str
    functions: dict[str, str]
    dropped: tuple[str, ...]


_KINDS = (
    _Kind(
        text="Adam with its state in 8 bits (bitsandbytes; numbers change)",
        name="adamw_8bit",
        saves=0.75,
        package="bitsandbytes",
        functions={"Adam": "bitsandbytes.optim.Adam8bit", "AdamW": "bitsandbytes.optim.AdamW8bit"},
        dropped=_OF_TORCH,
    ),
    _Kind(
        text="Adafactor, which keeps sums of rows and columns (numbers change)",
        name="adafactor",
        saves=1.0,
        package="torch",
        functions={"Adam": "torch.optim.Adafactor", "AdamW": "torch.optim.Adafactor"},
        dropped=("betas", "eps", *_OF_TORCH),
    ),
)


def find(case: Case) -> Iterator[Remedy]:
    """The first that suffices."""
    for proposal in _proposals(case, case.over_bytes):
        done = case.verify(proposal)
        if done is not None:
            yield done
            return


def least(case: Case) -> Remedy | None:
    """The one that keeps least; None if none can take the place of the script's."""
    return next(iter(reversed(list(_proposals(case, 0)))), None)


def _proposals(case: Case, over_bytes: int) -> Iterator[Remedy]:
    """Those that may save so much: of one process, whose optimizers are all Adam."""
    survey = case.survey
    made = survey.optimizers
    if survey.report.ranks or not made or not all(o.torch and o.type in ("Adam", "AdamW") for o in made):
        return
    state = sum(o.state_bytes for o in made)
    for kind in _KINDS:
        if state * kind.saves < max(over_bytes, 1) or util.find_spec(kind.package) is None:
            continue
        found = _by_arguments(case, kind) if survey.trainer else _by_calls(case, kind)
        if found is not None:
            yield found


def _by_arguments(case: Case, kind: _Kind) -> Remedy | None:
    """Of Hugging Face's Trainer, which makes the optimizer."""
    made = case.survey.given.arguments
    changes = Changes(printed=(kind.name,))
    if made is None or not made.by:
        return None
    if made.by == "options":
        command = with_option(case.trials.script.command, "--optim", kind.name)
        line = (" ".join(("python", *command) if command[0].endswith(".py") else command),)
        return case.proposal("optimizer", kind.text, line, changes, same=False, command=command)
    edit = Edit(made.file, made.line, made.type, (("optim", -1, f'"{kind.name}"'),))
    return case.proposal("optimizer", kind.text, _lines((edit,)), changes, same=False, edits=(edit,))


def _by_calls(case: Case, kind: _Kind) -> Remedy | None:
    """Of a loop of the user's."""
    edits = tuple(
        Edit(
            made.file,
            made.line,
            made.type,
            dropped=kind.dropped,
            function=kind.functions[made.type],
            imports="" if source.imports(made.file, kind.package) else f"import {kind.package}",
        )
        for made in case.survey.optimizers
    )
    changes = Changes(printed=(kind.name,))
    return case.proposal("optimizer", kind.text, _lines(edits), changes, same=False, edits=edits)


def _lines(edits: tuple[Edit, ...]) -> tuple[str, ...]:
    try:
        return calls(edits) if edits[0].function else lines(edits)
    except CoopsimError:
        return tuple(map(abbreviated, edits))
