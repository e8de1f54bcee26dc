"""The size from which on a policy gets through."""

import pytest

from coopsim.replay import measure
from coopsim.sweep.from_size import from_size
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make


@pytest.mark.parametrize("policy", ["coop", "dtr-oneflow", "foresight"])
@pytest.mark.parametrize("name", ["synth:chain:16", "synth:unet:4"])
def test_it_fits_there_and_at_every_stride_above_and_not_just_below(name: str, policy: str) -> None:
    trace = make(name)
    peak = peak_bytes(trace, 512)
    ticks: list[None] = []
    size = from_size(trace, policy, tick=lambda: ticks.append(None))
    assert size is not None
    assert 0 < size < peak
    assert len(ticks) > 5

    def fits(nbytes: int) -> bool:
        return bool(measure(trace, policy, "arena", nbytes, steps=2)["outcome"] == "ok")

    assert fits(size)
    assert all(fits(n * peak // 50) for n in range(1, 51) if n * peak // 50 >= size)
    assert not fits(size - peak // 400 - 1024)


def test_none_where_copies_never_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coopsim.sweep.from_size.measure", lambda *_, **__: {"outcome": "oom"})
    assert from_size(make("synth:chain:4"), "coop") is None


def test_a_plan_that_fails_costs_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the second step it needs 30 % of the peak, without it 20 %."""
    trace = make("synth:chain:8")
    peak = peak_bytes(trace, 512)

    def needs(_trace: object, _policy: str, _allocator: str, nbytes: int, steps: int) -> dict[str, str]:
        return {"outcome": "ok" if nbytes >= (0.3 if steps > 1 else 0.2) * peak else "oom"}

    monkeypatch.setattr("coopsim.sweep.from_size.measure", needs)
    assert from_size(trace, "foresight") == pytest.approx(0.3 * peak, abs=peak / 300)
    assert from_size(trace, "coop") == pytest.approx(0.3 * peak, abs=peak / 300)
