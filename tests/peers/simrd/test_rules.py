"""The compiled replay against the rules written a second time, and against numbers that simrd itself gave."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from coopsim.base.types import Action
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule
from tests.conftest import ROOT
from tests.peers.simrd import POLICIES, import_log, measure_simrd, replay_simrd
from tests.peers.simrd.chains import chain
from tests.peers.simrd.log import read
from tests.peers.simrd.logs import random_log
from tests.peers.simrd.reference import Reference
from tests.peers.simrd.scores import rounded_quotient

LINEAR = list(csv.DictReader((ROOT / "tests/peers/simrd/linear.csv").open()))
CLASSES = {cls: name for name, (_, cls) in POLICIES.items()}
RATIOS = (0.3, 0.45, 0.6, 0.75, 0.9)


def actions(schedule: Schedule, trace: Trace) -> list[tuple[str, int]]:
    """What the reference calls actions: its op numbers count the constants of the start."""
    constants = int(trace.alive_at_start.sum())
    found = []
    for k, (action, _, op, storage, *_) in enumerate(schedule.rows()):
        if action in (Action.COMPUTE, Action.RECOMPUTE):
            found.append((Action(action).name.lower(), op + constants))
        elif action == Action.ALLOC and op < 0:  # a constant of the start
            found.append(("compute", storage))
        elif action in (Action.EVICT, Action.RELEASE):
            found.append((Action(action).name.lower(), storage))
        else:
            assert action == Action.ALLOC, k
    return found


def differences(path: Path, policies: list[str], ratios: tuple[float, ...]) -> list[object]:
    """Replays of a log whose actions or figures are not the reference's."""
    trace, instructions = import_log(path), read(path)
    peak = trace.header["simrd"]["baseline_peak_bytes"]
    wrong: list[object] = []
    for policy in policies:
        for ratio in ratios:
            budget = max(1, int(peak * ratio))
            wanted = Reference(policy, budget, 10.0).run(instructions)
            got = replay_simrd(trace, policy, budget, 10.0)
            h = got.header
            figures = (h["outcome"], h["total_cost_ns"], h["recompute_cost_ns"], h["peak_bytes"], h["search_scores"])
            if figures != (wanted.outcome, wanted.clock - 1, wanted.recomputed, wanted.peak, wanted.scores):
                wrong.append((policy, ratio, figures))
            elif actions(got, trace) != wanted.actions:
                wrong.append((policy, ratio))
    return wrong


@pytest.mark.parametrize("seed", range(40))
def test_random_logs_go_as_the_rules_say(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "random.log"
    path.write_text(random_log(seed, 40 + 3 * seed))
    assert not differences(path, list(POLICIES), RATIOS)


@pytest.mark.parametrize("seed", range(10))
def test_views_of_one_of_several_storages_go_as_the_rules_say(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "random.log"
    path.write_text(random_log(1000 + seed, 150, mixed_views=True))
    assert not differences(path, ["dtr-eq", "dtr-local", "lru", "largest"], RATIOS)


def test_chains_cost_what_simrd_says() -> None:
    assert len(LINEAR) == 204
    counts = {"recomputes": "remat_ops", "evictions": "evictions_pressure"}
    counts |= {"releases": "evictions_dealloc", "search_scores": "heuristic_evals"}
    different = []
    for row in LINEAR:
        trace = chain(int(row["n"]), releases=row["releases"] == "1")
        limit = 1 + int(row["remat_limit"]) / int(row["model_ops"])
        r = measure_simrd(trace, CLASSES[row["heuristic"]], int(row["budget_units"]), limit)
        if r["outcome"] != row["status"] or any(r[ours] != int(row[theirs]) for ours, theirs in counts.items()):
            different.append(f"{row}: { ({key: r[key] for key in ('outcome', *counts)}) }")
    assert not different, "\n".join(different)


def test_interpreted_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "random.log"
    path.write_text(random_log(7, 120))
    script = (
        "import json, sys; from coopsim.simulate.kernel.jit import DISABLED; "
        "from coopsim.simulate.kernel.reference import Bundle\n"
        "from tests.strict import make_strict\nif DISABLED: make_strict(Bundle)\n"
        "from tests.peers.simrd import *\n"
        "t = import_log(sys.argv[1]); peak = t.header['simrd']['baseline_peak_bytes']\n"
        "print(json.dumps([replay_simrd(t, p, int(peak * r), 10.0).rows() for p in POLICIES for r in (0.5, 0.8)]))"
    )

    def rows(**environment: str) -> object:
        command = [sys.executable, "-c", script, str(path)]
        out = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True).stdout
        return json.loads(out)

    assert rows(NUMBA_DISABLE_JIT="1") == rows()


def test_quotients_are_rounded_once() -> None:
    rng = random.Random(1)
    for _ in range(20_000):
        c, m, s = (rng.randrange(1, 1 << rng.randrange(1, 53)) for _ in range(3))
        assert rounded_quotient(c, m, s) == c / (m * s)
    assert rounded_quotient(-5, 3, 7) == -5 / 21
