"""A batch is cut into parts along the first dimension of its tensors, or not at all."""

from collections.abc import Callable
from typing import Any

PARTS = """
from collections import UserDict
import torch
from coopsim.run.launch.dividing import parts_of

tokens, names = torch.arange(10).reshape(5, 2), ["a", "b", "c", "d", "e"]
batch = UserDict(tokens=tokens, more=(tokens, 7), names=names, scale=torch.tensor(2.0))
others = torch.zeros(3, 1), [torch.zeros(4), torch.zeros(5)], "text", torch.tensor(1.0)
answer({
    "kind": type(parts_of(batch, 2)[0]).__name__,
    "parts": [[p["tokens"].tolist(), p["names"], p["more"][1], p["scale"].item()] for p in parts_of(batch, 2)],
    "sizes": [len(part) for part in parts_of(tokens, 4)],
    "others": [parts_of(other, 4) for other in others],
})
"""


def test_parts(on_phantom: Callable[[str], Any]) -> None:
    found = on_phantom(PARTS)
    assert found["kind"] == "UserDict"
    assert found["parts"] == [
        [[[0, 1], [2, 3], [4, 5]], ["a", "b", "c"], 7, 2],
        [[[6, 7], [8, 9]], ["d", "e"], 7, 2],
    ]
    assert found["sizes"] == [2, 1, 1, 1]
    assert found["others"] == [None] * 4
