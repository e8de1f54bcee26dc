"""Three ways to run out of memory with room to spare: the cause is found, the real allocator confirms the advice."""

import json
from typing import Any

import pytest

from .conftest import Teller

#: Story, memory of the card (with 420 MiB for the context), cause.
STORIES = [
    ("long_lived", "6154MiB", "fragmentation"),
    ("lengths", "6820MiB", "fragmentation"),
    ("side_stream", "5000MiB", "other-streams"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("story", "memory", "cause"), STORIES)
def test_advice_is_right(story: str, memory: str, cause: str, told: Teller, tmp_path: Any, coopsim: Any) -> None:
    outcome, snapshot = told(story, memory)
    assert outcome == "out of memory"
    code, out, err = coopsim("advise", snapshot, "--json", "-o", tmp_path / "memory.png")
    assert code == 0, err
    advice = json.loads(out)
    assert advice["self_check"]["whole"]
    assert advice["self_check"]["placed"] == advice["self_check"]["requests"]
    assert not advice["fits"]
    assert advice["cause"] == cause
    assert advice["state"]["pinned"][0]["holders"][0].startswith(f"{story}.py:")
    assert (tmp_path / "memory.png").stat().st_size > 10_000
    assert advice["smallest_bytes_recommended"] < advice["smallest_bytes"]
    outcome, _ = told(story, memory, advice["recommended"])
    assert outcome == "trains"
