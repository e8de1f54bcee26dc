"""Plans in the shape of checkpointing: no layer more than twice, and never a schedule of several times the step."""

import numpy as np
import pytest

from coopsim.base.types import Action, InPlace, Pinning
from coopsim.live import schedules
from coopsim.live.signatures import Candidate
from coopsim.simulate import policies
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning import segments
from coopsim.simulate.planning.dry_run_state import new_dry_run
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.planning.make import make
from coopsim.simulate.planning.request import IterationStart, PlanRequest
from coopsim.simulate.planning.selection import keep_all
from coopsim.study.optimum.problem import problem_of
from coopsim.study.validate import validate
from coopsim.trace import load_trace, synth
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import GIVES_BACK

MIB = 1 << 20


def test_a_chain_is_cut_where_one_value_crosses() -> None:
    """Between any two layers one activation: with n segments, n - 1 narrow places of 1 MiB each."""
    program = lower(synth.chain(16), in_place=InPlace.RECOMPUTABLE, pinning=Pinning.SOUND, granule=512)
    D = new_dry_run(program)
    keep_all(D)
    places = segments.narrow_places(D, 16, 4)
    assert len(places) == 3
    assert set(segments.crossing(D, 16)[places].tolist()) == {MIB}


@pytest.mark.parametrize("layers", [36, 64])
def test_a_chain_in_twice_its_root_runs_each_layer_again_once_at_most(layers: int) -> None:
    """As Chen et al.: n layers in about 2 root n activations, for one more forward pass."""
    trace = synth.chain(layers)
    program = lower(trace, in_place=InPlace.RECOMPUTABLE, pinning=Pinning.SOUND, granule=512)
    budget = int(2 * layers**0.5 + 5) * MIB
    nbytes = program.values[program.initial, s.BYTES]
    placed = np.cumsum(nbytes) - nbytes
    request = PlanRequest(trace, policies.find("foresight"), budget, addresses=False, segmented=True)
    plan = make(request, IterationStart(placed))
    assert plan is not None
    assert plan.peak <= budget
    assert plan.cost <= sum(trace.cost_ns[:layers])


def test_what_is_found_costs_less_than_twice_the_step_or_is_refused() -> None:
    """From half of the peak to what nothing can do without."""
    trace = load_trace("gpt-2")
    peak, least = peak_bytes(trace, 512), schedules.least(trace)
    budgets = peak // 2, peak // 3, least.nbytes
    found = [schedules.Search(trace, "foresight-offline", nbytes).leaving(0) for nbytes in budgets]
    for candidate in found:
        assert isinstance(candidate, str) or candidate.cost < 1.75
    assert isinstance(found[0], Candidate)
    assert sum(least.held.values()) == least.nbytes


def test_what_is_to_be_spared_is_spared_where_it_can_be() -> None:
    """More than an op leaves that needs most whatever is evicted: there as much as can be, elsewhere all of it."""
    trace = load_trace("gpt-2")
    problem = problem_of(trace)
    needs = problem.needed
    for op in range(0, trace.n_ops, 100):
        assert needs[op] == problem.bytes_of(problem.at_least(op)) + problem.inside[op]
    budget, spare = int(1.15 * max(needs)), max(needs) // 5
    assert budget - spare < max(needs)
    found = schedules.Search(trace, "foresight-offline", budget).leaving(spare)
    assert isinstance(found, Candidate)
    schedule = found.schedule
    assert validate(schedule, trace) == []
    now, most = 0, [0] * trace.n_ops
    for action, _, op, _, _, _, nbytes, _, _ in schedule.rows():
        if action == Action.COMPUTE:
            most[op] = now
        elif action != Action.RECOMPUTE:
            now += nbytes if action == Action.ALLOC else -nbytes if Action(action) in GIVES_BACK else 0
    assert max(most) <= budget
    roomy = [op for op in range(trace.n_ops) if needs[op] + 2 * spare < budget]
    assert max(most[op] for op in roomy) <= budget - spare < max(most)
