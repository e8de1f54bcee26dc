"""A step takes as long as the slower of GPU and host: predicted, against what an H100 and its host took."""

import numpy as np
import pytest

from coopsim.live.host_time import StepTime, step_time
from coopsim.types import Action


class _Trace:
    cost_ns = np.array([51_000_000])


class _Schedule:
    overhead = 59.9 / 51.0
    action = np.array([Action.COMPUTE, *[Action.RECOMPUTE] * 173])


def predicted(*, on_gpu: bool) -> StepTime:
    return step_time(_Trace(), range(2209), _Schedule(), on_gpu=on_gpu)  # type: ignore[arg-type]


def test_gpt_2_in_half_its_memory_takes_the_host_what_it_took() -> None:
    """2209 ops are dispatched, 173 run again. 4.1 ms of the 62.5 that were measured are the driver's, of a retry."""
    time = predicted(on_gpu=True)
    assert time.plain_host / 1e6 == pytest.approx(40.5, abs=0.2)
    assert time.planned_host / 1e6 == pytest.approx(62.5 - 4.1, abs=0.2)
    assert (time.plain_gpu, time.planned_gpu) == (51_000_000, 59_900_000)
    assert time.overhead == pytest.approx(59.9 / 51.0)  # the host is hidden, barely


def test_the_longer_of_both_counts_as_it_is_and_by_the_plan() -> None:
    assert StepTime(10, 4, 11, 15).overhead == 1.5
    assert StepTime(10, 20, 11, 30).overhead == 1.5
    assert StepTime(0, 0, 0, 0).overhead == 1.0


def test_on_the_cpu_the_ops_are_the_host_s() -> None:
    time = predicted(on_gpu=False)
    assert (time.plain_host, time.planned_host) == (0, 0)
    assert time.overhead == pytest.approx(59.9 / 51.0)
