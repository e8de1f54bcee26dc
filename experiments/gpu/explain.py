"""What each difference between the GPU's trace and the phantom's comes from, as far as the traces show it."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

Row = dict[str, Any]

NOT_EXPLAINED = "not explained"

#: The causes, and what they mean.
CAUSES = {
    "workspace of cuDNN": "cuDNN's plan takes memory while the op runs; the phantom's plans take a constant amount",
    "workspace of cuBLAS": "a matrix product takes memory while it runs; the phantom's takes none",
    "scratch of another kernel": "memory that an op takes and gives back inside, other than the two above",
    "reserve of cuDNN": "cuDNN says how large what it keeps for the backward pass is; the phantom says its own size",
    "follows from a size": "an op reads, writes or frees a storage whose size differs for a reason named here",
    "requests in another order": "the op takes and gives back the same bytes, in another order",
    "freed at another op": "the same bytes are freed, some ops earlier or later",
    "another op in its place": "at the same place PyTorch runs another op: it chose another kernel",
    "another place in the order": "the op runs in both, elsewhere in the order",
    "a value decides": "the program reads a value that the phantom does not have, and takes another branch from there",
    "label": "phase or module alone: no memory differs",
    NOT_EXPLAINED: "to be looked at",
}
_CUDNN = ("convolution", "cudnn_", "_cudnn_", "_thnn_fused_lstm")
_RESERVES = ("cudnn_batch_norm", "_cudnn_rnn", "_cudnn_init_dropout_state")
_READ_BY_THE_HOST = ("all.", "any.", "equal.", "nonzero", "_local_scalar_dense", "is_nonzero")
_CUBLAS = ("mm.", "addmm", "bmm", "baddbmm", "linear", "_scaled_dot_product")


def explain(rows: list[Row]) -> list[str]:
    """For each row of compare.compare, in order, a key of CAUSES."""
    causes = _one_sided(rows)
    grown = _reserves(rows, causes)
    by_op = {(row["gpu_op"], row["what"]): i for i, row in enumerate(rows)}
    for i, row in enumerate(rows):
        match row["what"]:
            case "temporaries":
                causes[i] = _scratch(row)
            case "requests":
                causes[i] = _requests(row, by_op)
            case "reads" | "mutates" if not any(_surplus(row, grown)):
                causes[i] = "follows from a size"
            case "flops" if any((row["gpu_op"], what) in by_op for what in ("creates", "reads")):
                causes[i] = "follows from a size"
            case "phase" | "module":
                causes[i] = "label"
    _frees(rows, grown, causes)
    _branches(rows, causes)
    return [causes.get(i, NOT_EXPLAINED) for i in range(len(rows))]


def _begins(row: Row, names: tuple[str, ...]) -> bool:
    return bool(row["op"].removeprefix("aten.").startswith(names))


def _one_sided(rows: list[Row]) -> dict[int, str]:
    """Ops that only one has: replaced by others where both sides have some at one place; or moved."""
    sides = {"only on the GPU": "gpu_op", "only on the phantom": "phantom_op"}
    found: dict[int, str] = {}
    here = [(i, row) for i, row in enumerate(rows) if row["what"] in sides]
    unmatched = Counter[tuple[str, str, str]]((row["what"], row["op"], row["module"]) for _, row in here)
    for _, block in groupby(here, key=lambda pair: pair[1]["block"]):
        members = list(block)
        both = {row["what"] for _, row in members} == set(sides)
        for i, row in members:
            other = next(side for side in sides if side != row["what"])
            if unmatched[other, row["op"], row["module"]]:
                found[i] = "another place in the order"
            elif both:
                found[i] = "another op in its place"
    return found


def _reserves(rows: list[Row], causes: dict[int, str]) -> dict[int, set[int]]:
    """Creations of another size by ops of cuDNN; by the phantom's size, the GPU's."""
    grown: dict[int, set[int]] = {}
    for i, row in enumerate(rows):
        if row["what"] == "creates" and _begins(row, _RESERVES) and len(row["gpu"]) == len(row["phantom"]):
            causes[i] = "reserve of cuDNN"
            for gpu, phantom in zip(row["gpu"], row["phantom"], strict=True):
                if gpu != phantom:
                    grown.setdefault(phantom, set()).add(gpu)
    return grown


def _scratch(row: Row) -> str:
    if _begins(row, _CUDNN):
        return "workspace of cuDNN"
    return "workspace of cuBLAS" if _begins(row, _CUBLAS) else "scratch of another kernel"


def _requests(row: Row, by_op: dict[tuple[Any, str], int]) -> str:
    if (row["gpu_op"], "temporaries") in by_op:
        return _scratch(row)
    if (row["gpu_op"], "creates") in by_op:
        return "follows from a size"
    bytes_taken = [sorted(code for code in row[side] if code > 0) for side in ("gpu", "phantom")]
    # An empty list is short for: takes what the op creates, in that order.
    same = bytes_taken[0] == bytes_taken[1]
    return "requests in another order" if same else _scratch(row)


def _surplus(row: Row, grown: dict[int, set[int]]) -> tuple[Counter[int], Counter[int]]:
    """Bytes that only the GPU has in a row, and only the phantom, less pairs of sizes that are explained."""
    sides = [row[side] if isinstance(row[side], list) else (row[side] or {}).get("frees", []) for side in _SIDES]
    gpu, phantom = (Counter[int](side) for side in sides)
    gpu, phantom = gpu - phantom, phantom - gpu
    for size in list(phantom.elements()):
        for other in grown.get(size, ()):
            if gpu[other]:
                gpu[other] -= 1
                phantom[size] -= 1
                break
    return +gpu, +phantom


_SIDES = ("gpu", "phantom")


def _frees(rows: list[Row], grown: dict[int, set[int]], causes: dict[int, str]) -> None:
    """A row is explained if all that one side frees there, the other frees at another op."""
    places = [i for i, row in enumerate(rows) if row["what"] == "frees" or row["what"].startswith("only on")]
    surplus = {i: _surplus(rows[i], grown) for i in places}
    total = [sum((surplus[i][side] for i in places), Counter[int]()) for side in (0, 1)]
    for size, bytes_of_gpu in _translated(total[1], grown):
        total[1][bytes_of_gpu] += total[1].pop(size)
    lonely = {size for size in total[0] | total[1] if total[0][size] != total[1][size]}
    for i in places:
        if rows[i]["what"] != "frees":
            continue
        sizes = set(surplus[i][0]) | {_other(size, grown) for size in surplus[i][1]}
        if not sizes:
            causes[i] = "follows from a size"
        elif not sizes & lonely:
            causes[i] = "freed at another op"


def _branches(rows: list[Row], causes: dict[int, str]) -> None:
    """What nothing explains, in a module from an op on whose value the host reads, if only one side has ops there."""
    read: dict[str, int] = {}
    one_sided = {row["module"] for i, row in enumerate(rows) if i not in causes and row["what"].startswith("only on")}
    for i, row in enumerate(rows):
        if i in causes or row["module"] not in one_sided:
            continue
        if _begins(row, _READ_BY_THE_HOST):
            read.setdefault(row["module"], i)
        if row["module"] in read:
            causes[i] = "a value decides"


def _translated(sizes: Counter[int], grown: dict[int, set[int]]) -> Iterator[tuple[int, int]]:
    for size in list(sizes):
        if _other(size, grown) != size:
            yield size, _other(size, grown)


def _other(size: int, grown: dict[int, set[int]]) -> int:
    """The GPU's size of what has this on the phantom, where that is one."""
    others = grown.get(size, set())
    return next(iter(others)) if len(others) == 1 else size
