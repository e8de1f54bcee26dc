"""GMLake against the program that its authors released, row by row.

What the program answered lies in the folder that COOPSIM_ORIGINALS_DATA names (gmlake_traces.csv, gmlake_events.csv,
gmlake_random.csv).
"""

import csv
import itertools
import os
from pathlib import Path

import pytest

from coopsim.simulate.allocators.serving.gmlake import GmlakeOptions
from tests.simulate.allocators.serving.gmlake_answers import Op, answers
from tests.simulate.allocators.serving.gmlake_goldens import requests_of

DATA = Path(os.environ.get("COOPSIM_ORIGINALS_DATA") or "/nowhere")

pytestmark = pytest.mark.skipif(
    not (DATA / "gmlake_traces.csv").exists(), reason="COOPSIM_ORIGINALS_DATA names no folder of the originals' answers"
)

Row = dict[str, str]


def rows(name: str) -> list[Row]:
    with (DATA / f"gmlake_{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def trace_ops(name: str, steps: str) -> list[Op]:
    lines = requests_of(name, int(steps)).lines()
    return [(op, *map(int, numbers)) for op, *numbers in map(str.split, lines)]


def integers(row: Row, names: str) -> list[int]:
    return [int(row[name]) for name in names.split()]


def test_traces() -> None:
    found = rows("traces")
    assert found
    for row in found:
        ops = trace_ops(row["trace"], row["steps"])
        got = list(answers(ops, GmlakeOptions(frag_limit=int(row["frag_limit"]))))
        peaks = [max(a.reserved for a in got), max(a.active for a in got)]
        last = got[-1]
        assert [len(ops), *peaks, last.stitches, last.stitched_chunks, last.segments] == integers(
            row, "rows peak_reserved peak_active stitches stitched_chunks segments_made"
        ), (row["trace"], row["frag_limit"])


def test_events() -> None:
    """After each request that made, stitched or returned memory, and after no other."""
    found = rows("events")
    assert found
    for (trace, steps, limit), part in itertools.groupby(found, lambda r: (r["trace"], r["steps"], r["frag_limit"])):
        wanted = [integers(row, "row reserved active segments_made stitches stitched_chunks") for row in part]
        got, before = [], (0, 0, 0)
        for at, a in enumerate(answers(trace_ops(trace, steps), GmlakeOptions(frag_limit=int(limit)))):
            if (a.reserved, a.segments, a.stitches) != before:
                got.append([at, *a[:5]])
            before = (a.reserved, a.segments, a.stitches)
        assert got == wanted, (trace, limit)


def test_random_requests() -> None:
    found = rows("random")
    assert found
    for case, group in itertools.groupby(found, lambda row: row["case"]):
        part = list(group)
        got = list(answers([op(row) for row in part], options(part[0])))
        wanted = [integers(row, "reserved active stitches out_of_memory") for row in part]
        assert [[a.reserved, a.active, a.stitches, a.refused] for a in got] == wanted, case
        assert not got[-1].faults


def op(row: Row) -> Op:
    return ("a", *integers(row, "id bytes stream")) if row["op"] == "a" else ("f", int(row["id"]))


def options(row: Row) -> GmlakeOptions:
    return GmlakeOptions(
        frag_limit=int(row["frag_limit"]),
        reuse_limit=float(row["reuse_limit"]),
        defrag_level=int(row["defrag_level"]),
        auto_gc=int(row["auto_gc"]),
        realloc=row["realloc"] == "1",
        memory=int(row["memory"]) if row["memory"] else None,
    )
