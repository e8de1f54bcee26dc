"""Write modules as Python expressions: model.encoder.layer[:5]."""

import itertools
from collections.abc import Sequence

from coopsim.fitting.survey import ModelSurvey


def expressions(model: ModelSurvey, names: Sequence[str]) -> list[str]:
    """Return Python expressions for the modules `names` of a model; neighbours in a list become one starred slice."""
    found = []
    for parent, group in itertools.groupby(names, key=lambda name: name.rpartition(".")[0]):
        last = [name.rpartition(".")[2] for name in group]
        if all(part.isdecimal() for part in last):
            numbers = [int(part) for part in last]
            found += [_slice(attribute(model, parent), run) for run in _runs(numbers)]
        else:
            found += [attribute(model, f"{parent}.{part}" if parent else part) for part in last]
    return found


def attribute(model: ModelSurvey, name: str) -> str:
    """Return the Python expression for a module, or a list of modules, by its name in the model ("" is the model).

    >>> attribute(ModelSurvey(0, "", None, False, False, False, "net", "module.", "", ()), "module.h.3.down-1")
    'net.h[3]["down-1"]'
    """
    text = model.variable
    for part in filter(None, name.removeprefix(model.prefix).split(".")):
        text += f"[{part}]" if part.isdecimal() else f".{part}" if part.isidentifier() else f'["{part}"]'
    return text


def _runs(numbers: list[int]) -> list[list[int]]:
    """Split ascending numbers into runs of consecutive ones."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] + 1 == n:
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def _slice(parent: str, run: list[int]) -> str:
    if len(run) == 1:
        return f"{parent}[{run[0]}]"
    return f"*{parent}[{run[0] or ''}:{run[-1] + 1}]"
