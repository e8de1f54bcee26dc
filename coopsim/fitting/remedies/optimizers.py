"""Remedy "optimizer": one with less state than Adam, in its place: Adam with 8-bit state, or Adafactor."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util

from coopsim.base.types import CoopsimError
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import source
from coopsim.fitting.editing.edits import Edit, calls
from coopsim.fitting.remedies import arguments
from coopsim.fitting.remedy import Remedy

#: Arguments of torch.optim's Adam that the others do not take.
_OF_TORCH = ("foreach", "fused", "capturable", "differentiable", "amsgrad", "maximize", "decoupled_weight_decay")


@dataclass(frozen=True)
class _Kind:
    """A replacement for Adam and AdamW. name: Hugging Face's. saves: the most it may save, as a share of the state."""

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


def propose(bench: Bench) -> None:
    """Propose the first of the two that suffices.

    Only those whose saved state may be enough are tried, in a script of one process whose optimizers are all Adam.
    """
    if not bench.has_option("optimizer"):
        bench.first_of(_proposals(bench, bench.over_bytes))


def least(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet, with the least state, for combinations.

    None if none can replace the script's.
    """
    return next(iter(reversed(list(_proposals(bench, 0)))), None)


def _proposals(bench: Bench, over_bytes: int) -> Iterator[Remedy]:
    """Propose those that may save `over_bytes`, in a script of one process whose optimizers are all Adam."""
    survey = bench.survey
    made = survey.optimizers
    if survey.report.ranks or not made or not all(o.torch and o.type in ("Adam", "AdamW") for o in made):
        return
    state = sum(o.state_bytes for o in made)
    for kind in _KINDS:
        if state * kind.saves < max(over_bytes, 1) or util.find_spec(kind.package) is None:
            continue
        if survey.trainer:
            found = arguments.proposal(bench, "optimizer", kind.text, "optim", Changes(), same=False, value=kind.name)
        else:
            found = _by_calls(bench, kind)
        if found is not None:
            yield found


def _by_calls(bench: Bench, kind: _Kind) -> Remedy | None:
    """Propose one for a script that makes its optimizers itself; None where the places of its calls are not certain."""
    edits = tuple(
        Edit(
            made.file,
            made.line,
            made.type,
            dropped=kind.dropped,
            function=kind.functions[made.type],
            imports="" if source.imports(made.file, kind.package) else f"import {kind.package}",
        )
        for made in bench.survey.optimizers
    )
    try:
        said = calls(edits)
    except CoopsimError:
        return None
    return bench.proposal("optimizer", kind.text, said, Changes(printed=(kind.name,)), same=False, edits=edits)
