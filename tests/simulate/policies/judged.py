"""What every policy must pass, a user's own among them: replays that the judge passes."""

from coopsim.simulate import allocators
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make

RATIOS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


def judge(trace: Trace, policy: str, allocator: str, ratio: float, steps: int) -> str:
    """Replay, judge, and give the outcome."""
    budget = int(ratio * peak_bytes(trace, allocators.find(allocator).granule))
    schedule = replay(trace, policy, budget, allocator, steps=steps)
    assert validate(schedule, trace) == [], (policy, allocator, ratio)
    return str(schedule.header["outcome"])


def judge_synthetic(name: str, policy: str, allocator: str) -> None:
    """Replay a synthetic trace with 100 % to 30 % of its peak: some replay ends, and every schedule is sound."""
    trace = make(name)
    outcomes = [judge(trace, policy, allocator, ratio, steps=3) for ratio in RATIOS]
    assert outcomes[0] in ("ok", "oom")
    assert "ok" in outcomes
