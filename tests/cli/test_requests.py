"""coopsim requests: the lines, and one clear line for what is wrong with a case."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

GOOD = {"conf": "", "total": 1 << 30, "ops": ["a 1 1000 0", "a 2 3000000 0", "f 1", "s", "p", "a 3 2000000000 0"]}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "case.json"
    path.write_text(json.dumps({k: v for k, v in (GOOD | changes).items() if v is not None}))
    return path


def test_the_lines(coopsim, tmp_path: Path) -> None:
    answer = coopsim("requests", write(tmp_path), "--torch", "2.15.0")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "a 1 0",
        "a 2 2097152",
        "seg 0 2097152 stream 0 S: f2097152/1000",
        "seg 2097152 20971520 stream 0 L: A3000320/3000000 f17971200/0",
        "stats alloc 3000320 peak 3001344 reserved 23068672 peak 23068672 active 3000320 peak 3001344 "
        "insplit 17971200 peak 20067328 requested_peak 3001000 nseg 2 nsegpeak 2 retries 0 ooms 0 ndevalloc 2 "
        "ndevfree 0",
        "oom 3 2000000000",
    ]


def test_settings_of_a_trace_make_a_row_each(coopsim) -> None:
    settings = ("--alloc-conf", "max_split_size_mb:64", "--alloc-conf", "expandable_segments:True")
    answer = coopsim("requests", "synth:unet:4", "--json", *settings)
    assert [row["allocator"] for row in json.loads(answer.out)["allocators"]] == [
        "cuda-caching",
        "cuda-caching (expandable_segments:True)",
        "cuda-caching (max_split_size_mb:64)",
        "gmlake",
        "planned",
        "planned:release",
    ]
    assert "is below 20" in coopsim("requests", "synth:unet:4", "--alloc-conf", "max_split_size_mb:1").err


def test_a_case_has_its_own_settings(coopsim, tmp_path: Path) -> None:
    answer = coopsim("requests", write(tmp_path), "--alloc-conf", "max_split_size_mb:64")
    assert answer.code == 2
    assert "--alloc-conf are for traces" in answer.err


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_snapshot_is_to_be_imported(coopsim, tmp_path: Path, protocol: int) -> None:
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": []}, protocol))
    answer = coopsim("requests", tmp_path / "s.pickle")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "import it first: coopsim import torch-snapshot" in answer.err


@pytest.mark.parametrize(
    ("changes", "torch", "says"),
    [
        ({}, "2.5.1", "torch 2.5.1 is not simulated"),
        ({}, "2.16.0", "torch 2.16.0 is not simulated"),
        ({}, "new", "'new' is not a version"),
        ({"conf": None}, "2.15.0", "conf is missing"),
        ({"conf": 3}, "2.15.0", "conf is 3"),
        ({"conf": "max_split_size_mb:19"}, "2.15.0", "max_split_size_mb: 19 is below 20"),
        ({"conf": "max_split_size_mb:20"}, "2.6.0", "20 is not above 20"),
        ({"conf": "large_segment_size_mb:64"}, "2.6.0", "unknown setting 'large_segment_size_mb'"),
        ({"conf": "expandable_segments:true"}, "2.15.0", "'true' is neither True nor False"),
        ({"conf": "expandable_segment:True"}, "2.15.0", "did you mean expandable_segments"),
        ({"conf": "backend:cudaMallocAsync"}, "2.15.0", "not simulated"),
        ({"conf": "max_split_size_mb"}, "2.15.0", "it ends after 'max_split_size_mb'"),
        ({"total": 0}, "2.15.0", "total is 0"),
        ({"total": "1GiB"}, "2.15.0", "total is '1GiB'"),
        ({"total": True}, "2.15.0", "total is True"),
        ({"ops": "a 1 1 0"}, "2.15.0", "ops is"),
        ({"ops": [["a", 1]]}, "2.15.0", "ops[0]"),
        ({"ops": ["a 1 1000 0", "y 1"]}, "2.15.0", "ops[1]: 'y 1' is not a request"),
        ({"ops": ["a 1 1000 0", "x 1"]}, "2.15.0", "ops[1]: 'x 1': 1 has no users"),
        ({"ops": ["a 1 1000 0", "n 1"]}, "2.15.0", "ops[1]: 'n 1': 1 is not begun"),
        ({"ops": ["a 1 1000 0", "b 0 -1"]}, "2.15.0", "ops[1]: 'b 0 -1': private pools count from 1"),
        ({"ops": ["a 1 1000"]}, "2.15.0", "is not a request"),
        ({"ops": ["a 1 -5 0"]}, "2.15.0", "'-5' is not a whole number"),
        ({"ops": ["a 1 1e3 0"]}, "2.15.0", "'1e3' is not a whole number"),
        ({"ops": ["a 1 99999999999999999999 0"]}, "2.15.0", "is beyond"),
        ({"ops": ["a 1 5 0", "a 1 5 0"]}, "2.15.0", "1 is held already"),
        ({"ops": ["a 1 5 0", "f 2"]}, "2.15.0", "2 is not held"),
        ({"ops": ["a 1 5 0", "f 1", "f 1"]}, "2.15.0", "1 is not held"),
        ({"ops": ["r 1 16"]}, "2.15.0", "1 is not held"),
        ({"ops": ["a 1 5 0", "r 1 17"]}, "2.15.0", "17 is not the address of a stream"),
        ({"ops": ["F 1.5"]}, "2.15.0", "a memory fraction is in 0 to 1"),
        ({"ops": ["F nan"]}, "2.15.0", "a memory fraction is in 0 to 1"),
        ({"ops": ["F half"]}, "2.15.0", "a memory fraction is in 0 to 1"),
        ({"ops": [""]}, "2.15.0", "is not a request"),
    ],
)
def test_one_clear_line(coopsim, tmp_path: Path, changes: dict[str, Any], torch: str, says: str) -> None:
    answer = coopsim("requests", write(tmp_path, **changes), "--torch", torch)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert says in answer.err


@pytest.mark.parametrize(
    ("text", "says"), [("", "not a case file"), ("[]", "list, not an object"), ("{", "not a case")]
)
def test_no_case_file(coopsim, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "case.json").write_text(text)
    answer = coopsim("requests", tmp_path / "case.json")
    assert answer.code == 2
    assert says in answer.err
    assert coopsim("requests", tmp_path / "absent.json").err.endswith("absent.json: no such file\n")
    assert coopsim("requests", tmp_path).code == 2


@pytest.mark.slow
def test_against_the_real_allocator(coopsim, tmp_path: Path) -> None:
    """The installed torch's own library is asked; what it is asked by, tests/study/oracle tests."""
    answer = coopsim("requests", "synth:unet:4", "--against", "torch==2.14.1", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["agrees"]
    assert [card["equal"] for card in found["cards"]] == [card["requests"] for card in found["cards"]]
    assert coopsim("requests", write(tmp_path), "--against", "torch==2.14.1").out.startswith(
        "torch 2.14.1 answers the same"
    )


def test_against_what(coopsim, tmp_path: Path) -> None:
    answer = coopsim("requests", write(tmp_path), "--against", "pytorch")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "write torch==VERSION" in answer.err


def test_segments_as_on_a_card(coopsim, tmp_path: Path) -> None:
    ops = ["a 1 30000000 0", "a 2 1000 0", "s"]
    answer = coopsim("requests", write(tmp_path, ops=ops), "--torch", "2.11.0", "--driver", "cuda")
    first, second = (int(line.split()[2]) for line in answer.out.splitlines()[:2])
    assert second - first == 30 << 20  # in one chunk
    assert first + (32 << 20) == 1 << 46
    answer = coopsim("requests", write(tmp_path), "--driver", "cuda", "--against", "torch==2.15.0")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--driver does not go with --against" in answer.err
