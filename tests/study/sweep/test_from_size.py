"""The size from which on a policy gets through."""

from pathlib import Path

import pytest

from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure
from coopsim.study.sweep import Grid, Processes, Scan, feasibility_map
from coopsim.study.sweep.recompute import MemorySize, from_size
from coopsim.study.tables import feasible
from coopsim.trace import load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make
from tests.conftest import BERT


@pytest.mark.parametrize("policy", ["coop", "dtr-oneflow", "foresight"])
@pytest.mark.parametrize("name", ["synth:chain:16", "synth:unet:4"])
def test_it_fits_there_and_at_every_stride_above_and_not_just_below(name: str, policy: str) -> None:
    trace = make(name)
    peak = peak_bytes(trace, 512)
    ticks: list[None] = []
    size = from_size(trace, policy, tick=lambda: ticks.append(None))
    assert size is not None
    assert 0 < size.nbytes < peak
    assert len(ticks) > 50

    def fits(nbytes: int, steps: int = 10) -> bool:
        return bool(measure(trace, policy, nbytes, options=ReplayOptions(steps))["outcome"] == "ok")

    assert fits(size.nbytes)
    searched = 1 if policy == "foresight" else 10  # of a policy that plans, the iteration that goes without a plan
    assert all(fits(n * peak // 200, searched) for n in range(1, 201) if n * peak // 200 >= size.nbytes)
    assert not fits(size.nbytes - peak // 2000 - 1024)


@pytest.mark.parametrize("policy", [pytest.param("dtr-oneflow", marks=pytest.mark.slow), "coop"])
def test_it_is_what_a_map_calls_safe(policy: str, tmp_path: Path) -> None:
    """Of BERT-Large, in ten steps."""
    path = str(BERT)
    bottom = {"dtr-oneflow": "16%", "coop": "15%"}[policy]
    table = feasibility_map(Grid([path], [policy]), Scan(bottom=bottom), tmp_path / "m.parquet", Processes(1))
    ((_, found),) = feasible(table)
    size = from_size(load(path), policy)
    assert size is not None
    assert found.safe is not None
    assert size.nbytes == found.safe.budget_bytes
    assert size.budget == {"dtr-oneflow": "17.05%", "coop": "16.35%"}[policy]


def test_none_where_copies_never_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coopsim.study.sweep.recompute.measure", lambda *_, **__: {"outcome": "oom"})
    assert from_size(make("synth:chain:4"), "coop") is None


def test_a_plan_that_fails_costs_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the second step it needs 30 % of the peak, without it 20 %."""
    trace = make("synth:chain:8")
    peak = peak_bytes(trace, 512)

    def needs(_trace: object, _policy: str, nbytes: int, *, options: ReplayOptions) -> dict[str, str]:
        return {"outcome": "ok" if nbytes >= (0.3 if options.steps > 1 else 0.2) * peak - 512 else "oom"}

    monkeypatch.setattr("coopsim.study.sweep.recompute.measure", needs)
    assert [from_size(trace, policy) for policy in ("foresight", "coop")] == [
        MemorySize(int(0.3 * peak) // 512 * 512, "30%")
    ] * 2


def test_more_than_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make("synth:chain:8")
    peak = peak_bytes(trace, 512)

    def needs(_trace: object, _policy: str, nbytes: int, *, options: ReplayOptions) -> dict[str, str]:
        return {"outcome": "ok" if nbytes >= 1.2 * peak - 512 else "oom"}

    monkeypatch.setattr("coopsim.study.sweep.recompute.measure", needs)
    assert from_size(trace, "coop") == MemorySize(int(1.2 * peak) // 512 * 512, "120%")
