"""Policies as classes: parameters, fresh state in each replay, events that are the schedule's rows, seeds."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coopsim
from coopsim.base.types import Action, CoopsimError, Lose
from coopsim.simulate import policies
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.replay import once, replay
from coopsim.study.sweep import own
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import make
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples" / "policies"
GDS = f"{EXAMPLES / 'greedy_dual_size.py'}:Gds"
LECAR = f"{EXAMPLES / 'lecar.py'}:LeCaR"
CHANCE = f"{EXAMPLES / 'by_chance.py'}:ByChance"

told: list[tuple[object, ...]] = []


class Told(coopsim.EvictionPolicy):
    """Evicts what was used last, and writes down what it is told."""

    in_place = "recomputable"

    def start(self, memory):
        told.append(("start", memory.op, memory.clock))

    def step(self, step):
        told.append(("step", step))

    def op(self, op):
        told.append(("op", op))

    def allocated(self, value):
        told.append(("allocated", value))

    def used(self, value, now):
        assert now == self.memory.clock
        assert self.memory.is_resident(value)
        told.append(("used", value))

    def dropped(self, value):
        told.append(("dropped", value))

    def evicted(self, value):
        told.append(("evicted", value))

    def recomputed(self, value):
        told.append(("recomputed", value))

    def choose(self, memory, need):
        going = [(memory.last_use(b.value), b.value) for b in memory.blocks() if b.can_go]
        return [min(going)[1]] if going else []


def expected(schedule: Schedule, trace: Trace) -> list[tuple[object, ...]]:
    """The events that the rows of a schedule stand for."""
    policy = policies.find(Told)
    program = lower(trace, in_place=policy.in_place, pinning=policy.pinning, granule=schedule.header["granule"])
    number = {key: v for v, key in enumerate(zip(program.storage.tolist(), program.version.tolist(), strict=True))}
    heirs = {int(to): int(old) for old, to in program.carry[:, [s.FROM, s.TO]]}
    temporary = {
        (op, int(program.version[program.outs[k]])): int(program.outs[k])
        for op in range(trace.n_ops)
        for k in range(program.ops[op, s.TEMPS], program.ops[op + 1, s.OUTS])
    }
    rows, found, came = schedule.rows(), list[tuple[object, ...]](), set[int]()
    for k, (action, _, op, storage, version, *_) in enumerate(rows):
        v = temporary[op, version] if storage < 0 <= version else number.get((storage, version), -1)
        if action == Action.ALLOC:
            found.append(("allocated", v))
            came.add(v)
        elif action == Action.EVICT:
            found.append(("evicted", v))
        elif action in (Action.RELEASE, Action.FREE):
            found.append(("dropped", v))
        elif action == Action.MOVE:
            old = heirs[v] if op < 0 else int(program.values[v, s.OLDER])
            found += [("dropped", old), ("allocated", v)]
        elif action in (Action.COMPUTE, Action.RECOMPUTE):
            outs = program.outs[program.ops[op, s.OUTS] : program.ops[op, s.TEMPS]].tolist()
            moved = set[int]()
            for later in rows[k + 1 :]:
                if later[0] != Action.MOVE:
                    break
                moved.add(number[later[3], later[4]])
            if action == Action.COMPUTE:
                found.append(("op", op))
            else:
                found += [("recomputed", w) for w in outs if w in came | moved]
            came.clear()
    return found


@pytest.mark.parametrize(("name", "allocator"), [("synth:unet:4", "arena"), ("synth:chain:24", "cuda-caching")])
def test_events_are_the_rows_of_the_schedule(name: str, allocator: str) -> None:
    trace = make(name)
    told.clear()
    schedule = replay(trace, Told, "80%" if allocator == "arena" else 64 << 20, allocator, steps=3)
    assert validate(schedule, trace) == []
    assert schedule.header["evictions"] or allocator != "arena"
    kinds = ("allocated", "evicted", "dropped", "op", "recomputed")
    assert [event for event in told if event[0] in kinds] == expected(schedule, trace)
    assert [event for event in told if event[0] in ("start", "step")] == [("start", -1, 0)] + [
        ("step", k) for k in range(3)
    ]


def test_events_of_in_place_ops_recomputed(bert: Trace) -> None:
    told.clear()
    schedule = replay(bert, Told, "65%", steps=2)
    found = [event for event in told if event[0] not in ("start", "step", "used")]
    assert found == expected(schedule, bert)
    assert Action.MOVE in schedule.action
    assert Action.RECOMPUTE in schedule.action
    uses = sum(event[0] == "used" for event in told)
    policy = policies.find(Told)
    ops = lower(bert, in_place=policy.in_place, pinning=policy.pinning, granule=512).ops
    count = np.diff(ops[:, s.INS]) + ops[:-1, s.TEMPS] - ops[:-1, s.OUTS]
    runs = schedule.op[np.isin(schedule.action, (Action.COMPUTE, Action.RECOMPUTE))]
    assert uses == count[runs].sum()


@pytest.mark.parametrize("spec", [GDS, LECAR, CHANCE])
def test_the_examples_are_sound_and_the_same_each_time(spec: str) -> None:
    trace = make("synth:unet:4")
    first = replay(trace, spec, "60%", steps=4)
    assert validate(first, trace) == []
    assert first.rows() == replay(trace, spec, "60%", steps=4).rows()


def test_a_replay_that_offloads_tells_a_policy_too(bert: Trace) -> None:
    spec = f"{GDS}:lose=either"
    assert policies.find(spec).lose == Lose.EITHER
    schedule = replay(bert, spec, "50%", steps=2, link="pcie4-x16")
    assert validate(schedule, bert) == []
    assert schedule.header["offloads"] > 0


def test_parameters() -> None:
    kind = policies._foreign.in_file(EXAMPLES / "greedy_dual_size.py")
    assert isinstance(kind, type)
    assert repr(kind()) == "Gds(alpha=1.0)"
    assert kind(alpha=1) == kind()
    assert len({kind(alpha=1), kind(), kind(alpha=2)}) == 2
    assert policies.find(kind(alpha=0.5)).name == "Gds:alpha=0.5"
    assert policies.find(f"{GDS}:alpha=0.5,placement=two_ended").own == kind(alpha=0.5)
    assert [name for name, _ in own.named([f"{GDS}:alpha=0.5|.5|0.50"])] == [f"{GDS}:alpha=0.5"]
    assert policies.find(Told).summary.startswith("Evicts what was used last")
    assert pickle.loads(pickle.dumps(Told())) == Told()  # noqa: S301
    mine = kind()
    for change in (lambda: setattr(mine, "alpha", 2.0), lambda: setattr(mine, "inflation", 2.0)):
        with pytest.raises(AttributeError, match=r"makes another policy|begins in start"):
            change()


class NoSearch(coopsim.EvictionPolicy):
    """Nothing to ask."""


class WithInit(coopsim.EvictionPolicy):
    """State in the wrong place."""

    def __init__(self):
        self.seen = {}

    def choose(self, memory, need):
        return []


class TooMany(coopsim.EvictionPolicy):
    """An event with an argument too many."""

    def evicted(self, value, when):
        """Never called."""

    def choose(self, memory, need):
        return []


class Odd(coopsim.EvictionPolicy):
    """A parameter of a type that no command line can give."""

    weights: list = []  # noqa: RUF012

    def choose(self, memory, need):
        return []


class Needs(coopsim.EvictionPolicy):
    """A parameter without a value."""

    alpha: float

    def choose(self, memory, need):
        return [self.alpha]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (NoSearch, "defines neither choose"),
        (WithInit, "state begins in start, not __init__"),
        (TooMany, r"TooMany.evicted is called with \(self, value\), but takes \(self, value, when\)"),
        (Odd, "a parameter is a float, int, bool or str, not list"),
        (Needs, "the parameter alpha has no value"),
        (f"{GDS}:alpha=fast", "alpha=fast is no float"),
        (f"{GDS}:aplha=2", "did you mean alpha"),
        (f"{GDS}:alpha=1|2", "a sweep takes them, a replay one"),
        (f"{GDS}:alpha=1,alpha=2", "alpha is given twice"),
        (lambda: Needs(alpha=2.0), "TypeError: 'float' object cannot be interpreted as an integer"),
        (coopsim.Policy("three", score=lambda c, r, b: c), r"score is called with \(cost, recency, nbytes, hole\)"),
        (coopsim.Policy("one", choose=lambda m: []), r"choose is called with \(memory, need\)"),
        (lambda: coopsim.Policy("plans", choose=lambda m, n: [], planning="repeat"), "goes without plans"),
    ],
)
def test_policies_refused_in_one_line(what: object, says: str) -> None:
    with pytest.raises(CoopsimError, match=says) as error:
        replay(make("synth:unet:4"), what() if callable(what) and not isinstance(what, type) else what, "60%", steps=1)
    assert "\n" not in str(error.value)


def test_an_error_shows_the_line_of_the_policy(coopsim, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import coopsim\n\n\nclass Mine(coopsim.EvictionPolicy):\n    def start(self, memory):\n        self.h = {}\n\n"
        "    def evicted(self, value):\n        self.last = self.h[value]\n\n    def choose(self, memory, need):\n"
        "        return [b.value for b in memory.blocks() if b.can_go][:1]\n"
    )
    code, out, err = coopsim("replay", "synth:unet:4", "--policy", f"{file}:Mine", "--budget", "60%", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "mine.py:9: KeyError" in err
    assert "in `self.last = self.h[value]`" in err


def test_seeds(coopsim, tmp_path: Path) -> None:
    trace = make("synth:unet:4")
    for policy in ("random", CHANCE):
        replays = [replay(trace, policy, "60%", steps=3, seed=k) for k in (0, 1, 1)]
        assert [r.header["seed"] for r in replays] == [0, 1, 1]
        assert replays[1].rows() == replays[2].rows() != replays[0].rows()
    assert replay(trace, "coop", "60%", steps=3, seed=5).rows() == replay(trace, "coop", "60%", steps=3).rows()
    answer = coopsim(
        "sweep", "synth:unet:4", "--policy", f"random,coop,{GDS}:alpha=0.5|1", "--budget", "60%", "--seeds", "3",
        "-j", "1", "--steps", "3", "-o", tmp_path / "r.parquet",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    table = pd.read_parquet(tmp_path / "r.parquet")
    own = ["Gds:alpha=0.5", "Gds:alpha=1"]
    assert table.seed.tolist() == [0] * 4 + [1] * 3 + [2] * 3  # what knows no chance is replayed once
    assert table.policy.tolist() == ["random", "coop", *own, *["random", *own] * 2]
    assert table.alpha.tolist()[2:4] == [0.5, 1.0]
    assert table.alpha.isna().tolist()[:2] == [True, True]
    assert table[table.policy == "random"].evictions.nunique() > 1
    one = coopsim(
        "replay", "synth:unet:4", "--policy", "random", "--budget", "60%", "--steps", 3, "--seed", 2, "--json"
    )
    assert json.loads(one.out)["evictions"] == table[(table.policy == "random") & (table.seed == 2)].evictions.item()
    assert coopsim("replay", "synth:unet:4", "--policy", "random", "--budget", "60%", "--seed", "-1").code == 2


def test_global_generators_begin_with_the_seed_and_stay_as_they_were() -> None:
    def anything(memory, need):
        import random

        going = [b.value for b in memory.blocks() if b.can_go]
        return [random.choice(going) if np.random.rand() < 0.5 else going[0]] if going else []  # noqa: NPY002

    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    one, two = (replay(make("synth:unet:4"), coopsim.Policy("any", choose=anything), "60%", steps=3) for _ in range(2))
    assert one.rows() == two.rows()
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_rows_that_are_not_what_was_counted_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In several arrays, the rows are the same; one taken away is noticed, whatever the policy."""
    trace = make("synth:unet:4")
    whole = replay(trace, "coop", "60%", steps=3)
    monkeypatch.setattr(once, "ROWS", 7)
    assert replay(trace, "coop", "60%", steps=3).rows() == whole.rows()
    taken = once.Log._take

    def loses_one(self: object, what: int, rows: int) -> int:
        return taken(self, what, rows - 1)  # type: ignore[arg-type]

    monkeypatch.setattr(once.Log, "_take", loses_one)
    monkeypatch.setattr(once, "ROWS", 1024)
    replay(trace, "coop", "60%", steps=1)
    monkeypatch.setattr(once, "ROWS", 7)
    with pytest.raises(CoopsimError, match="rows and counters differ"):
        replay(trace, "coop", "60%", steps=3)
