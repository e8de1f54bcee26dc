"""Remedy "unused": do not keep on the card what no step reads, such as a file that was loaded there."""

import ast
from collections.abc import Iterator

from coopsim.base.types import CoopsimError
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import source
from coopsim.fitting.editing.edits import Edit, lines
from coopsim.fitting.remedy import Remedy
from coopsim.run.records_memory import UnusedVariable

#: Functions that load a file, with the argument that says where to: its name and its position.
_LOADS = {"torch.load": ("map_location", 1), "load_file": ("device", 1), "safetensors.torch.load_file": ("device", 1)}


def propose(bench: Bench) -> None:
    """Propose a remedy for each variable with enough unused tensors: the first that suffices of these:

    to load the file into the host's memory; to delete the variable after its last use; and to empty the
    allocator's cache then. Of a copy of parameters that is made later, to move it to the host.
    """
    for one in bench.survey.report.unused:
        if one.bytes < bench.over_bytes:
            continue
        if bench.first_of(_proposals(bench, one)) is not None and bench.first:
            return


def all_of(bench: Bench) -> Iterator[Remedy]:
    """Yield a remedy, not tried yet, for each variable with unused tensors, to be combined with others."""
    for one in bench.survey.report.unused:
        yield from list(_proposals(bench, one))[:1]


def _proposals(bench: Bench, one: UnusedVariable) -> Iterator[Remedy]:
    name, file = one.name, one.file
    number = int(one.place.rpartition(":")[2] or 0)
    if one.later:
        made, target = source.assigned_at(file, number)
        is_dict = target.endswith("]") or one.kind.lower().endswith("dict")
        moved = f"{{key: value.cpu() for key, value in {target}.items()}}" if is_dict else f"{target}.cpu()"
        if made:
            edit = Edit(file, after=made, inserted=f"{target} = {moved}")
            yield from _proposal(bench, f"move {target} to the host's memory", edit)
        return
    for whole, (argument, position) in _LOADS.items():
        function = whole.rpartition(".")[2]
        call = source.call_at(file, number, function) if number else None
        if call is not None and ast.unparse(call.func) == whole:
            edit = Edit(file, number, function, ((argument, position, '"cpu"'),))
            yield from _proposal(bench, f"load {name} into the host's memory", edit)
    last = source.last_use(file, name)
    if not last:
        return
    yield from _proposal(bench, f"delete {name} after its last use", Edit(file, after=last, inserted=f"del {name}"))
    if source.imports(file, "torch"):
        edit = Edit(file, after=last, inserted=f"del {name}; torch.cuda.empty_cache()")
        yield from _proposal(bench, f"delete {name} after its last use, and empty the cache", edit)


def _proposal(bench: Bench, text: str, edit: Edit) -> Iterator[Remedy]:
    try:
        said = lines((edit,))
    except CoopsimError:
        return
    text = f"{text}: no step reads it"
    yield bench.proposal("unused", text, said, Changes(printed=("unused",)), same=True, edits=(edit,))
