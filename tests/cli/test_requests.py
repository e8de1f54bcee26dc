"""coopsim requests: a row per allocator and setting, and one clear line for what is wrong with these."""

import json
import pickle
from typing import Any

import pytest


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


@pytest.mark.parametrize(
    ("conf", "torch", "says"),
    [
        ("", "2.5.1", "torch 2.5.1 is not simulated"),
        ("", "2.16.0", "torch 2.16.0 is not simulated"),
        ("", "new", "'new' is not a version"),
        ("max_split_size_mb:19", "2.15.0", "max_split_size_mb: 19 is below 20"),
        ("max_split_size_mb:20", "2.6.0", "20 is not above 20"),
        ("large_segment_size_mb:64", "2.6.0", "unknown setting 'large_segment_size_mb'"),
        ("expandable_segments:true", "2.15.0", "'true' is neither True nor False"),
        ("expandable_segment:True", "2.15.0", "did you mean expandable_segments"),
        ("backend:cudaMallocAsync", "2.15.0", "not simulated"),
        ("max_split_size_mb", "2.15.0", "it ends after 'max_split_size_mb'"),
    ],
)
def test_one_clear_line(coopsim, conf: str, torch: str, says: str) -> None:
    answer = coopsim("requests", "synth:unet:4", "--alloc-conf", conf, "--torch", torch)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert says in answer.err


def test_only_traces_are_served(coopsim, tmp_path: Any) -> None:
    (tmp_path / "case.json").write_text("{}")
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": []}))
    for name, says in (("case.json", "not a trace file"), ("s.pickle", "first: coopsim import torch-snapshot")):
        answer = coopsim("requests", tmp_path / name)
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert says in answer.err


@pytest.mark.slow
def test_against_the_real_allocator(coopsim) -> None:
    """The installed torch's own library is asked; what it is asked by, tests/study/oracle tests."""
    answer = coopsim("requests", "synth:unet:4", "--against", "torch==2.14.1", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["agrees"]
    assert [card["equal"] for card in found["cards"]] == [card["requests"] for card in found["cards"]]


def test_against_what(coopsim) -> None:
    answer = coopsim("requests", "synth:unet:4", "--against", "pytorch")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "write torch==VERSION" in answer.err
    answer = coopsim("requests", "synth:unet:4", "--driver", "cuda", "--against", "torch==2.15.0")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--driver does not go with --against" in answer.err
