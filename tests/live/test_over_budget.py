"""What `coopsim live run` says of a budget that was exceeded."""

import pytest

from coopsim.cli import live as verb

SAID = {
    "budget_bytes": 200 << 20,
    "steps": 4,
    "planned_steps": 2,
    "peak_allocated_bytes": 190 << 20,
    "peak_reserved_bytes": 226 << 20,
    "evictions": 3,
    "recomputes": 5,
    "deviations": 0,
    "replans": 0,
    "device_calls": 0,
    "predicted_overhead": 1.25,
    "predicted_ns": {"plain_gpu": 8_000_000, "plain_host": 4_000_000, "planned_gpu": 10_000_000, "planned_host": 5e6},
    "step_ns": None,
    "prices": "prices by class",
    "policy": "foresight",
    "unplanned": "",
    "deviated": "",
    "no_arena": "",
    "offloads": 0,
    "offloaded_bytes": 0,
    "host_bytes": 0,
    "no_offload": "",
    "failed": "",
}


@pytest.mark.parametrize(
    ("by_plan", "line"),
    [(False, "by 26 MiB; whether a plan keeps to it, `coopsim live plan` tells"), (True, "by 26 MiB")],
)
def test_it_promises_nothing_of_a_plan_that_nobody_made(by_plan: bool, line: str) -> None:
    assert f"over budget     {line}" in verb._text(SAID | {"by_plan": by_plan}).splitlines()


def test_it_says_what_takes_the_time_and_whether_steps_are_steady() -> None:
    lines = verb._text(SAID | {"device_calls": 7}).splitlines()
    assert "a step          GPU 8.0 → 10.0 ms, host 4.0 → 5.0 ms (a model)" in lines
    assert "prices          prices by class" in lines
    measured = verb._text(SAID | {"step_ns": 12_340_000}).splitlines()
    assert "a step          GPU 8.0 → 10.0 ms, host 4.0 → 5.0 ms (a model); measured: 12.3 ms" in measured
    assert "not steady      the last step took GPU memory or gave it back 7 times" in lines
    assert not any(line.startswith("not steady") for line in verb._text(SAID).splitlines())


def test_a_budget_that_was_kept() -> None:
    assert "over budget" not in verb._text(SAID | {"peak_reserved_bytes": 199 << 20})
