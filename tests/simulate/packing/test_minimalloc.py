"""MiniMalloc's CSV files: all their headers; files that are none are refused in one line and nothing is written."""

import json
from pathlib import Path

import pytest

from coopsim.simulate.packing import PlanError
from coopsim.simulate.packing.minimalloc import read
from tests.conftest import BERT


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("id,lower,upper,size\na,0,3,4\n", 3),
        ("buffer_id,start,end,size\na,0,3,4\n", 4),  # `end` is the last moment of life
        ("buffer,begin,upper,size\na,0,3,4\n", 3),
        (" Size ,id,Upper,lower,colour\r\n4,a,3,0,red\r\n\r\n", 3),
        ("id,lower,upper,size,gaps,offset\na,0,3,4,,99\n", 3),
        ("\ufeffid,lower,upper,size\na,0,3,4", 3),
    ],
)
def test_headers(tmp_path: Path, text: str, end: int) -> None:
    (tmp_path / "f.csv").write_bytes(text.encode())
    items = read(tmp_path / "f.csv").items
    columns = (items.bytes, items.start, items.end, items.alignment)
    assert [column.tolist() for column in columns] == [[4], [0], [end], [1]]


BAD = [
    ("", "empty; the first line must name the columns"),
    ("id,lower,upper,size\n", "no rows"),
    ("id,lower,size\na,0,4\n", "no column upper or end in the first line"),
    ("id,lower,start,upper,size\na,0,0,3,4\n", "two columns for lower: lower and start"),
    ("id,lower,upper,size\na,0,3\n", "line 2 has 3 fields, the first line 4"),
    ("id,lower,upper,size\na,0,3,4\n\nb,0,x,4\n", "line 4: upper is not a whole number ('x')"),
    ("id,lower,upper,size\na,0,3,4.5\n", "line 2: size is not a whole number ('4.5')"),
    ("id,lower,upper,size\na,0,3,-4\n", "line 2 has a negative size (-4)"),
    ("id,lower,upper,size\na,3,3,4\n", "line 2 has an end that is not after its start (3)"),
    ("id,lower,upper,size,alignment\na,0,3,4,0\n", "line 2 has an alignment below 1 (0)"),
    ("id,lower,upper,size,gaps\na,0,3,4,1-2\n", "line 2 has a gap in its lifetime"),
    ("id,lower,upper,size\na,0,99999999999999999999,4\n", "line 2: upper is too large"),
    ('id,lower,upper,size\n"a,0,3,4\n', "not a CSV file"),
    ("id,lower,upper,size\n" + 9 * f"a,0,3,{1 << 61}\n", "more than 4 EiB"),
    (b"\x93NUMPY\xff", "not a CSV file"),
]


@pytest.mark.parametrize(("text", "says"), BAD, ids=[says[:40] for _, says in BAD])
def test_bad_files(coopsim, tmp_path: Path, text: str | bytes, says: str) -> None:
    file = tmp_path / "f.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PlanError) as e:
        read(file)
    assert says in str(e.value)
    answer = coopsim("plan", file, "-o", tmp_path / "out.csv")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [file]


def test_plan_writes_offsets(coopsim, tmp_path: Path) -> None:
    file, out = tmp_path / "f.csv", tmp_path / "out.csv"
    file.write_text('id,lower,upper,size,offset,note\n"a,1",0,4,6,9,x\nb,4,8,6,9,y\nc,0,8,2,9,z\n')
    answer = coopsim("plan", file, "-o", out)
    assert answer.code == 0
    assert "height        8 (8 B)" in answer.out
    assert "yes: no plan is lower than the bound" in answer.out
    assert out.read_text() == 'id,lower,upper,size,note,offset\n"a,1",0,4,6,x,2\nb,4,8,6,y,2\nc,0,8,2,z,0\n'
    assert sorted(tmp_path.iterdir()) == [file, out]


def test_plan_as_json(coopsim, tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("id,lower,upper,size\na,0,4,6\nb,2,8,6\n")
    found = json.loads(coopsim("plan", file, "--json").out)
    assert found == {
        "file": str(file),
        "items": 2,
        "height": 12,
        "lower_bound": 12,
        "proven_bound": 12,
        "optimal": True,
        "work": 0,
        "offsets": [0, 6],
    }


def test_plan_a_trace(coopsim, tmp_path: Path) -> None:
    answer = coopsim("plan", BERT, "-o", tmp_path / "out.csv")
    assert answer.code == 0
    assert "optimal       yes" in answer.out
    table = read(tmp_path / "out.csv")
    assert table.header == ["id", "lower", "upper", "size", "alignment", "offset"]
    assert set(table.items.alignment.tolist()) == {512}


def test_no_such_file_or_folder(coopsim, tmp_path: Path) -> None:
    assert coopsim("plan", tmp_path / "absent.csv").err.count("\n") == 1
    (tmp_path / "f.csv").write_text("id,lower,upper,size\na,0,4,6\n")
    answer = coopsim("plan", tmp_path / "f.csv", "-o", tmp_path / "no" / "out.csv")
    assert (answer.code, "no such folder" in answer.err) == (2, True)
