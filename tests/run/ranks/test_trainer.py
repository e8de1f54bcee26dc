"""Hugging Face's Trainer as ranks of a job."""

import importlib.util

import pytest

from tests.run.ranks.conftest import Job

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="the Trainer needs accelerate"),
]


def test_fsdp_holds_less_than_ddp(job: Job) -> None:
    whole, sharded = (job("trainer", kind, world=8) for kind in ("ddp", "fsdp"))
    assert whole["steps"] == sharded["steps"] == 3
    assert sharded["peak_requested_bytes"] < whole["peak_requested_bytes"]
