"""What a user's policy reads is read when it is replayed: never machine code, rows or state of another version."""

import functools
import itertools
import math
import os
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest

import coopsim
from coopsim import Policy
from coopsim.base.types import CoopsimError
from coopsim.simulate.policies._reads import Reads
from coopsim.simulate.replay import measure
from coopsim.study.sweep import Grid, Processes, sweep
from coopsim.trace import Trace, load
from tests.conftest import ROOT
from tests.study.sweep.tables import table

ALPHAS, EVICTIONS = (1.0, 0.0, -2.0, 1.0), [88, 178, 214, 88]
ALPHA = 1.0
HELD = SimpleNamespace(alpha=1.0)
ARRAY = np.ones(1)


@pytest.fixture(scope="module")
def unet() -> Trace:
    return load(ROOT / "traces" / "unet.parquet")


def evictions(trace: Trace, score: Any) -> int:
    from coopsim.simulate.options import ReplayOptions

    found: int = measure(trace, Policy("x", score=score), "80%", options=ReplayOptions(3))["evictions"]
    return found


def of_a_global(cost, recency, nbytes, hole):
    return cost / (recency * nbytes**ALPHA)


def of_an_array(cost, recency, nbytes, hole):
    return cost / (recency * nbytes ** ARRAY[0])


@numba.njit
def exponent():
    return ALPHA


def of_a_compiled_function(cost, recency, nbytes, hole):
    return cost / (recency * nbytes ** exponent())


def of_a_module(cost, recency, nbytes, hole):
    return cost / (recency * nbytes**math.coopsim_test)  # type: ignore[attr-defined]


def of_an_object(cost, recency, nbytes, hole):
    return cost / (recency * nbytes**HELD.alpha)


class Called:
    alpha = 1.0

    def __init__(self, alpha: float) -> None:
        self.own = alpha

    def __call__(self, cost, recency, nbytes, hole):
        return cost / (recency * nbytes**self.own)

    @classmethod
    def of_the_class(cls, cost, recency, nbytes, hole):
        return cost / (recency * nbytes**cls.alpha)


def closure(alpha: float) -> Any:
    return lambda c, r, b, h: c / (r * b**alpha)


def default(value: float) -> Any:
    def score(c, r, b, h, alpha=value):
        return c / (r * b**alpha)

    return score


def partial(value: float) -> Any:
    return functools.partial(lambda alpha, c, r, b, h: c / (r * b**alpha), value)


def cell(alpha: float) -> Any:
    """As a notebook's cell that is run again: the same file, line and name."""
    names: dict[str, Any] = {}
    text = f"def score(c, r, b, h):\n    return c / (r * b**{alpha})\n"
    exec(compile(text, "<cell>", "exec"), names)  # noqa: S102
    return names["score"]


@pytest.mark.parametrize(
    ("kind", "score"),
    [
        ("ALPHA", of_a_global),
        ("ALPHA", of_a_compiled_function),
        ("ARRAY", of_an_array),
        ("HELD", of_an_object),
        ("math", of_a_module),
        ("class", Called.of_the_class),
        ("", closure),
        ("", default),
        ("", partial),
        ("", cell),
        ("", Called),
    ],
    ids=lambda it: getattr(it, "__name__", it),
)
def test_scores_see_the_values_of_now(kind: str, score: Any, unet: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    found, hashes = [], []
    for alpha in ALPHAS:
        if kind == "ALPHA":
            monkeypatch.setitem(globals(), "ALPHA", alpha)
        elif kind == "ARRAY":
            ARRAY[0] = alpha
        elif kind == "HELD":
            HELD.alpha = alpha
        elif kind == "math":
            monkeypatch.setattr(math, "coopsim_test", alpha, raising=False)
        elif kind == "class":
            monkeypatch.setattr(Called, "alpha", alpha)
        this = score if kind else score(alpha)
        hashes.append(Reads(this).digest)
        found.append(evictions(unet, this))
    assert found == EVICTIONS
    assert [hashes.index(h) for h in hashes] == [0, 1, 2, 0]


def test_lambdas_on_one_line(unet: Trace) -> None:
    a, b, c = (
        lambda c, r, b, h: c / (r * b**1.0),
        lambda c, r, b, h: c / (r * b**-2.0),
        lambda c, r, b, h: c / (r * b**0.0),
    )
    assert [evictions(unet, f) for f in (a, b, c)] == [88, 214, 178]


@pytest.mark.parametrize(
    "text", ["ALPHA = {}\n", "import os\nALPHA = float(os.environ['ALPHA'])\n", "from params import ALPHA\n"]
)
def test_files_and_processes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unet: Trace) -> None:
    """The same file, edited within a second to the same length; the environment; a module's constant."""
    monkeypatch.syspath_prepend(tmp_path)
    score = "\ndef f(c, r, b, h):\n    return c / (r * b**ALPHA)\n\nP = Policy('p', score=f)\n"
    file, found = tmp_path / "own.py", []
    for alpha in ("1.00", "0.00", "-2.0", "1.00"):
        file.write_text("from coopsim.simulate.policies import Policy\n" + text.format(alpha) + score)
        (tmp_path / "params.py").write_text(f"ALPHA = {alpha}\n")
        monkeypatch.setenv("ALPHA", alpha)
        if "environ" in text:  # is read when the file is
            code = f"import coopsim; print(coopsim.sweep('unet', '{file}:P', '80%', steps=3).evictions.item())"
            env = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
            found.append(
                int(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout)
            )
        else:
            found.append(coopsim.replay(unet, f"{file}:P", "80%", steps=3).header["evictions"])
    assert found == EVICTIONS


LEARNS = """
from coopsim.simulate.policies import Policy
seen = {}

def choose(memory, need):
    going = [b for b in memory.blocks() if b.can_go]
    going.sort(key=lambda b: (seen.get(b.value, 0), memory.last_use(b.value)))
    for b in going[:1]:
        seen[b.value] = seen.get(b.value, 0) + 1
    return [b.value for b in going[:1]]

Learns = Policy("learns", choose=choose, in_place="recomputable")
"""


def test_a_file_s_state_begins_anew_in_each_replay(tmp_path: Path) -> None:
    """Replayed, called again, swept in this process, in others, and swept on: one result."""
    file = tmp_path / "learns.py"
    file.write_text(LEARNS)
    trace = coopsim.load("synth:unet:4")
    first, again = (coopsim.replay(trace, f"{file}:Learns", "75%", steps=6) for _ in range(2))
    assert first.rows() == again.rows()
    assert first.header["searches"] > 10
    budgets = ["80%", "75%", "75%", "70%"]
    grid = Grid(("synth:unet:4",), (f"{file}:Learns",), budgets=budgets, options={"steps": 6})
    tables = [sweep(grid, tmp_path / f"{k}", where) for k, where in enumerate((None, Processes(2), None))]

    def cut(done: int, _total: int) -> None:
        if done == 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sweep(grid, tmp_path / "cut", on_row=cut)
    sweep(grid, tmp_path / "cut")
    for name in ("1", "2", "cut"):
        pd.testing.assert_frame_equal(table(tmp_path / "0"), table(tmp_path / name))
    assert tables[0].overhead[1] == first.overhead


def test_a_resumed_sweep_takes_no_row_of_another_version(tmp_path: Path) -> None:
    """What a helper module says is part of a row's name; of the other policies' rows none is replayed again."""
    (tmp_path / "helper_of_mine.py").write_text("ALPHA = 1.0\n")
    file, output = tmp_path / "own.py", tmp_path / "r.parquet"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport helper_of_mine as helper\n"
        "from coopsim.simulate.policies import Policy\n"
        "def f(c, r, b, h):\n    return c / (r * b**helper.ALPHA)\nP = Policy('p', score=f)\n"
    )
    grid = Grid(("unet",), (f"{file}:P", "lru"), budgets=("80%", "75%"), options={"steps": 3})
    seen: list[int] = []

    def cut(done: int, _total: int) -> None:
        seen.append(done)
        if done == 4 and len(seen) == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sweep(grid, output, on_row=cut)
    (tmp_path / "helper_of_mine.py").write_text("ALPHA = -2.\n")
    found = sweep(grid, output, on_row=cut)
    assert seen[5] == 2  # rows that are there: LRU's
    assert found.evictions.tolist()[0] == 214
    sys.path.remove(str(tmp_path))


def test_what_cannot_be_known_is_not_reused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = threading.Lock()

    def choose(memory, need):
        with lock:
            return [b.value for b in memory.blocks() if b.can_go][:1]

    def cut(done: int, _total: int) -> None:
        if done == 1:
            raise InterruptedError

    grid = Grid(("synth:unet:4",), (Policy("locked", choose=choose),), budgets=("90%", "70%"), options={"steps": 2})
    with pytest.raises(InterruptedError):
        sweep(grid, tmp_path / "r", on_row=cut)
    assert "locked: the state of a lock cannot be known, so another sweep may find" in capsys.readouterr().err
    from coopsim.study.sweep import own

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "_THIS_RUN", "another")
        seen: list[int] = []
        sweep(grid, tmp_path / "r", on_row=lambda done, _total: seen.append(done))
    assert seen[0] == 0
    assert capsys.readouterr().err.count("locked: the state of a lock cannot be known, so its replays begin anew") == 1


CHANCE = """
import random
from numpy.random import randint
from random import choice
from coopsim import Policy

def going(memory):
    return [b.value for b in memory.blocks() if b.can_go]

def numbers():
    k = 0
    while True:
        k += 1
        yield k

count = numbers()
A = Policy("a", choose=lambda memory, need: [(c := going(memory))[randint(len(c))]])
B = Policy("b", choose=lambda memory, need: [choice(going(memory))])
C = Policy("c", choose=lambda memory, need: [(c := going(memory))[next(count) % len(c)]])
"""


def test_generators_begin_anew_however_they_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of random and NumPy with the seed; one of a file's own, whose state cannot be known, with the file."""
    file = tmp_path / "chance.py"
    file.write_text(CHANCE)
    for name in "ABC":
        budgets = ("70%", "60%")
        found = sweep(
            Grid(("synth:chain:32",), (f"{file}:{name}",), budgets=budgets, options={"steps": 2}), tmp_path / name
        )
        trace = coopsim.load("synth:chain:32")
        alone = [coopsim.replay(trace, f"{file}:{name}", budget, steps=2) for budget in budgets]
        assert found.overhead.tolist() == [replay.overhead for replay in alone]
        said = capsys.readouterr().err
        assert ("may decide otherwise in another replay: the state of a generator cannot be known" in said) == (
            name == "C"
        )


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda: open("x"), "open"),  # noqa: SIM115
        (lambda: getattr(HELD, "alpha"), "getattr"),  # noqa: B009
        (lambda: sys.modules, ""),
        (itertools.chain, ""),
        (os.urandom, "urandom"),
        (lambda: hash("a"), "hash"),
        (lambda: id(HELD), "id"),
        (iter([1]).__next__, ""),
        ((x for x in ()), "generator"),
    ],
)
def test_what_is_known_of_odd_things(what: Any, says: str) -> None:
    reads = Reads(what)
    assert says in reads.unknown
    assert reads.digest == Reads(what).digest


def counts(memory, need):
    """Two victims, and a list that grows."""
    log.append(need)
    return [b.value for b in memory.blocks() if b.can_go][:2]


log: list[int] = []


def test_a_search_is_called_once_for_each_search(capsys: pytest.CaptureFixture[str]) -> None:
    """What it changes outlives the replay, which is said once, and refused in a sweep."""
    log.clear()
    trace, memories = coopsim.load("synth:unet:4"), []
    mine = Policy("counts", choose=lambda m, n: memories.append(m) or counts(m, n))
    for allocator in ("arena", coopsim.cuda_caching()):
        log.clear()
        found = coopsim.replay(trace, mine, "70%" if allocator == "arena" else 40 << 20, allocator, steps=3)
        assert len(log) == found.header["searches"]
    assert len({id(m) for m in memories}) <= 2
    assert capsys.readouterr().err.count("has changed 'memories', which outlives the replay") == 1
    with pytest.raises(CoopsimError, match="rows would depend on their order; make it an EvictionPolicy"):
        coopsim.sweep("synth:unet:4", Policy("counts", choose=counts), ["70%", "60%"], steps=2)


class Mine(coopsim.EvictionPolicy):
    """What a sweep takes from Python: the first `n` that can go."""

    n: int = 1

    def choose(self, memory, need):
        return memory.table().value[memory.table().can_go][: self.n]


def test_sweeps_take_policies_of_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = (Mine, Mine(n=3), "lru", Policy("scored", score=closure(0.5)))
    grid = Grid(("synth:unet:4",), wanted, budgets=("90%", "70%"), options={"steps": 2})
    sweep(grid, tmp_path / "1")
    assert capsys.readouterr().err == ""
    sweep(grid, tmp_path / "2", Processes(2))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "policy scored is replayed in this process: it cannot be sent to another" in said
    pd.testing.assert_frame_equal(table(tmp_path / "1"), table(tmp_path / "2"))
    found = table(tmp_path / "1")
    assert found.policy.tolist()[::2] == ["Mine", "Mine:n=3", "lru", "scored"]
    assert found.n.tolist()[::2] == [1, 3, pd.NA, pd.NA]
    with pytest.raises(CoopsimError, match="two policies are called 'x'"):
        coopsim.sweep("synth:unet:4", [Policy("x", score=closure(1.0)), Policy("x", score=closure(2.0))], "70%")


def test_workers_that_read_something_else_are_not_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A global that was set after the module was imported: other processes do not have it."""

    class Elsewhere(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            global ALPHA
            before, ALPHA = ALPHA, 7.0
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            ALPHA = before
            return future

    grid = Grid(("unet",), (Policy("mine", score=of_a_global),), budgets=("80%", "75%"), options={"steps": 3})
    found = sweep(grid, tmp_path / "r", Elsewhere())
    assert found.evictions[0] == 88
    assert "policy mine is replayed in this process: other processes read something else" in capsys.readouterr().err


def test_what_a_policy_writes_to_the_trace_changes_no_other_replay() -> None:
    class Writes(coopsim.EvictionPolicy):
        in_place = "recomputable"

        def start(self, memory: Any) -> None:
            assert "seen" not in memory.trace.header
            memory.trace.header["seen"] = True
            with pytest.raises(ValueError, match="read-only"):
                memory.trace.cost_ns[0] = 1

        def choose(self, memory: Any, need: int) -> Any:
            table = memory.table()
            return table.value[table.can_go][:1]

    trace = coopsim.load("synth:unet:4")
    first, second = (coopsim.replay(trace, Writes, "70%", steps=2) for _ in range(2))
    assert first == second
    assert "seen" not in trace.header


class _Kept:
    """What the next test's policy keeps: its class has attributes of its own."""

    kinds: frozenset[str] = frozenset()


_kept: list[_Kept] = []


def _made() -> _Kept:
    return _Kept()


def test_what_has_changed_is_named_by_the_data_not_by_its_class() -> None:
    def keeps(memory, need):
        _kept.append(_made())
        return []

    before = Reads(keeps)
    keeps(None, 0)
    assert Reads(keeps).changed_since(before) == "_kept"
    _kept.clear()
