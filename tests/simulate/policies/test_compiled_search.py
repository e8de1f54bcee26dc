"""A search that Numba compiles decides as the same search in Python, and what goes wrong in it is said."""

import numpy as np
import pytest

import coopsim
from coopsim.base.types import CoopsimError
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.synth import make

FACTOR = 1.0


class InPython(coopsim.EvictionPolicy):
    """The least of a worth that uses and evictions change, of what lies low."""

    alpha: float = 1.0
    most: int = 2
    in_place = "recomputable"

    def start(self, memory):
        self.worth = np.zeros(memory.values)
        self.count = np.zeros(1, np.int64)

    def used(self, value, now):
        self.worth[value] += 1 + now % 7

    def choose(self, memory, need):
        table = memory.table()
        keys = self.worth[table.value] * FACTOR + self.alpha * table.score + table.address % 3 + table.last_use % 5
        order = [k for k in np.argsort(keys, kind="stable").tolist() if table.can_go[k]]
        self.count[0] += 1
        return table.value[order[: 1 + (need + self.count[0]) % self.most]]


class Compiled(InPython):
    """The same."""

    @coopsim.compiled
    @staticmethod
    def choose(address, value, can_go, score, last_use, worth, count, alpha, most, need, out):
        keys = np.empty(len(value))
        for k in range(len(value)):
            keys[k] = worth[value[k]] * FACTOR + alpha * score[k] + address[k] % 3 + last_use[k] % 5
        count[0] += 1
        n, wanted = 0, 1 + (need + count[0]) % most
        for k in np.argsort(keys, kind="mergesort"):
            if can_go[k] and n < wanted:
                out[n] = value[k]
                n += 1
        return n


@pytest.mark.parametrize("allocator", ["arena", "counter"])
def test_decides_as_in_python(allocator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make("synth:chain:24")
    for policy in ({"alpha": 0.5}, {"most": 3}):
        for budget in ("70%", "50%"):
            mine = replay(trace, InPython(**policy), budget, allocator, steps=3)
            fast = replay(trace, Compiled(**policy), budget, allocator, steps=3)
            assert fast.header["own_functions"] == {"choose": "compiled"}
            assert fast.rows() == mine.rows()
            assert [fast.header[k] for k in ("search_visits", "search_scores")] == [
                mine.header[k] for k in ("search_visits", "search_scores")
            ]
            assert validate(fast, trace) == []
            assert fast.header["searches"] > 5
    monkeypatch.setitem(globals(), "FACTOR", -1.0)  # compiled anew
    assert replay(trace, Compiled, "60%", steps=3).rows() == replay(trace, InPython, "60%", steps=3).rows()
    monkeypatch.setattr("coopsim.simulate.replay.user.DISABLED", True)
    plain = replay(trace, Compiled, "60%", steps=3)
    assert plain.header["own_functions"] == {"choose": "Python"}
    assert plain.rows() == replay(trace, InPython, "60%", steps=3).rows()


def refused(search: object, **more: object) -> str:
    kind = type("Wrong", (coopsim.EvictionPolicy,), {"choose": search, "__module__": __name__} | more)
    with pytest.raises(CoopsimError) as error:
        replay(make("synth:chain:24"), kind, "50%", steps=1)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_goes_wrong_is_said(bert: Trace) -> None:
    assert "needs an argument out" in refused(coopsim.compiled(lambda value, need: 0))
    assert "cannot take the text by" in refused(
        coopsim.compiled(lambda by, need, out: 0), by="a", __annotations__={"by": str}
    )
    assert "weights is neither a column" in refused(coopsim.compiled(lambda weights, need, out: 0))
    assert "cannot be compiled" in refused(coopsim.compiled(lambda need, out: out.nothing))
    assert "IndexError" in refused(coopsim.compiled(lambda value, need, out: value[len(value) + 10**6]))
    assert "returns how many values" in refused(coopsim.compiled(lambda need, out: -1))
    assert "cannot be evicted now" in refused(coopsim.compiled(lambda need, out: 1))
    assert "ZeroDivisionError" in refused(coopsim.compiled(lambda need, out: 1 // (need - need)))
    assert "returns nothing, not how many" in refused(coopsim.compiled(lambda need, out: None))
    assert "there is no value -1 (-1: a hole)" in refused(lambda self, memory, need: [-1])
