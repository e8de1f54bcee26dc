"""Make a patch of the user's files for a remedy, where the places to change are certain."""

import difflib
import re
from dataclasses import replace
from pathlib import Path

from coopsim.base.types import CoopsimError
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import edits, fsdp, source
from coopsim.fitting.editing import texts as sources
from coopsim.fitting.remedy import COUNTS_BATCHES, Remedy
from coopsim.fitting.survey import Sharding, Survey


def with_patch(remedy: Remedy, survey: Survey) -> Remedy:
    """Return the remedy with its diff as `patch`, or the reason why there is none; with `texts` if its lines ran."""
    if remedy.stand_in == COUNTS_BATCHES:
        return replace(remedy, patch=f"no patch: {COUNTS_BATCHES}")
    try:
        texts = {} if remedy.stand_in else patched(remedy, survey)
        return replace(remedy, patch=diff(remedy, survey), patched=True, texts=tuple(texts.items()))
    except CoopsimError as e:
        return replace(remedy, patch=str(e))


def diff(remedy: Remedy, survey: Survey) -> str:
    """Return a unified diff of the files that a remedy changes.

    Raises CoopsimError, with the reason, if a place to change is not certain, or if no file changes.
    """
    texts = patched(remedy, survey)
    if not texts:
        raise CoopsimError(f"no patch: no file changes; {'; '.join(remedy.lines)}")
    return "".join(_unified(file, text) for file, text in texts.items())


def certain(remedy: Remedy, survey: Survey) -> dict[str, str] | None:
    """Return what `patched` returns; None where that raises, as a place to change is not certain."""
    try:
        return patched(remedy, survey)
    except CoopsimError:
        return None


def patched(remedy: Remedy, survey: Survey) -> dict[str, str]:
    """Return the new text of each file that a remedy changes, by path; {} if it changes none.

    Raises CoopsimError, with the reason, if a place to change is not certain.
    """
    changes = remedy.changes
    if changes.accumulate > 1 and not remedy.edits:
        raise CoopsimError("no patch: how the loop adds up gradients is for you to write")
    if changes.sharded_half:
        raise CoopsimError("no patch: every call of fully_shard takes the policy")
    texts: dict[str, str] = {}
    if remedy.after_model:
        _model(remedy, survey, texts)
    if changes.of_fsdp:
        for call in survey.sharding:
            _sharding(call, changes, texts)
    edits.apply(remedy.edits, texts)
    if not texts and remedy.changes.outside_files != remedy.changes:
        raise CoopsimError("no patch: where the lines belong is for you to say")
    return texts


def _model(remedy: Remedy, survey: Survey, texts: dict[str, str]) -> None:
    """Insert the lines after the models that they name, or else after the largest model, have been made."""
    about = "\n".join(remedy.after_model)
    models = [m for m in survey.models if re.search(rf"(?<![\w.]){re.escape(m.variable)}\b", about)] or survey.models[
        :1
    ]
    if not models or not all(model.name for model in models):
        raise CoopsimError("no patch: the script has no name for its model where it calls it")
    model = models[0]
    places: list[tuple[int, str]] = []
    for each in models:
        place = source.after_assignment(each.file, each.name.partition(".")[0])
        if place is None or (each.file, place[1]) != (model.file, (places or [place])[0][1]):
            raise CoopsimError(f"no patch: {Path(each.file).name} does not make {each.name} in one certain place")
        places.append(place)
    number, indent = max(places)
    rows = sources.rows(_text(model.file, texts))
    if any("torch." in line for line in remedy.after_model if not line.startswith("from ")) and not source.imports(
        model.file, "torch"
    ):
        raise CoopsimError(f"no patch: {Path(model.file).name} does not import torch")
    rows[number:number] = [f"{indent}{line}\n" for line in remedy.after_model]
    texts[model.file] = "".join(rows)


def _sharding(call: Sharding, changes: Changes, texts: dict[str, str]) -> None:
    if not fsdp.values(call, changes):
        return
    new = fsdp.replaced(call, changes)
    text = _text(call.file, texts)
    if new is None or text.count(new[0]) != 1:
        raise CoopsimError(f"no patch: the arguments of {call.type} are not certain")
    texts[call.file] = text.replace(*new)


def _text(file: str, texts: dict[str, str]) -> str:
    return texts.get(file) or sources.read(file)


def _unified(file: str, text: str) -> str:
    """Return the diff of one file, with its own ends of lines; bytes that are no UTF-8 as surrogates."""
    before, after = Path(file).read_bytes(), sources.encoded(file, text)
    name = Path(file)
    shown = name.relative_to(Path.cwd()) if name.is_relative_to(Path.cwd()) else name
    old, new = (sources.rows(of.decode("utf-8", "surrogateescape")) for of in (before, after))
    return "".join(difflib.unified_diff(old, new, fromfile=f"a/{shown}", tofile=f"b/{shown}"))
