"""Flags of `live run` and `live plan` that make no sense together are refused with one line."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(("flags", "line"), [
    (["--link", "pcie4-x16"], "--link is for --offload"),
    (["--offload", "--policy", "coop"], "policy coop makes no plans, and only plans offload"),
    (["--offload", "--link", "pcie9"], "pcie9"),
    (["--offload", "--host-memory", "32"], "--host-memory '32' has no unit"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(coopsim: Callable[..., Any], flags: list[str], line: str) -> None:
    code, _, err = coopsim("live", "run", "--memory", "8GiB", *flags, "--", "python", "train.py")
    assert code == 2
    assert line in err
    assert len(err.splitlines()) == 1
