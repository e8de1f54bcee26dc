"""Training inside a budget leaves the same bits as training without one."""

import pytest

from coopsim.simulate.planning import at_once
from tests.conftest import Runner
from tests.live.names import NAMES, SELDOM_PLANNED

CALL = """
from tests.live.compare import compare
answer({{name: compare(name, {memory!r}, {policy!r}, {steps}) for name in {names!r}}})
"""


QUICK = ["accumulated", "convolutions", "foreach_and_clipping", "own_kernel"]
OTHERS = [name for name in NAMES if name not in QUICK]


def test_all_programs_are_found() -> None:
    assert len(NAMES) > 20
    assert set(QUICK) | SELDOM_PLANNED < set(NAMES)


@pytest.mark.parametrize(("part", "steps"), [
    pytest.param(QUICK, 5, id="quick"),
    *(pytest.param(OTHERS[i::3], 9, id=f"part-{i}", marks=pytest.mark.slow) for i in range(3)),
])  # fmt: skip
def test_programs_end_with_the_same_bits(child: Runner, part: list[str], steps: int) -> None:
    """Losses, parameters, buffers, moments, scales; and memory was in fact taken away, by plan."""
    found = child(CALL.format(names=part, memory="75%", policy="foresight-offline", steps=steps))
    assert set(found) == set(part)
    for name, report in found.items():
        assert report["same"], name
        if name not in SELDOM_PLANNED:
            assert report["planned_steps"] >= 3, (name, report)
            assert report["evictions"] > 0, (name, report)
            assert report["recomputes"] > 0, (name, report)
            assert report["peak_allocated_bytes"] <= report["budget_bytes"], (name, report)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["coop", "dte", "thrift"])
def test_any_policy_will_do(child: Runner, policy: str) -> None:
    found = child(CALL.format(names=["convolutions", "transformer", "fused"], memory="75%", policy=policy, steps=9))
    for name, report in found.items():
        assert report["same"], name
        assert report["policy"] == policy
    assert sum(report["planned_steps"] for report in found.values()) >= 7


@pytest.mark.slow
def test_a_budget_in_bytes_holds_from_the_first_step_on(child: Runner) -> None:
    """Eight lengths of batch, each a step signature of its own: what finds no room goes to the host, as of a card."""
    spills = "from coopsim.live import step as steps; steps._SPILLS.add('cpu')\n"
    call = CALL.format(names=["eight_lengths"], memory="4.5MiB", policy="foresight-offline", steps=9)
    found = child(spills + call)["eight_lengths"]
    assert found["same"]
    assert found["evictions"] > 0
    assert found["peak_allocated_bytes"] <= found["budget_bytes"] == int(4.5 * 2**20)


FAULTS = {
    "a recomputation is skipped": "Values.run = skipped",
    "an older version is overwritten": "Values.copy = lambda self, storage, protected=(): storage",
    "dropout is drawn anew": "Values.execute = drawn",
}
PLANT = """
import torch
from coopsim.live.values import Values
from tests.live.compare import compare
own = run, execute, copy = Values.run, Values.execute, Values.copy
def skipped(self, call, targets, takeovers, protected=()):
    self.execute = lambda call, where, leave: {tracked: torch.zeros(tracked.nbytes, dtype=torch.uint8).untyped_storage()
        for tracked in call.results if tracked is not None and tracked not in where}
    run(self, call, targets, takeovers)
def drawn(self, call, where, protected):
    call.drawn = None
    return execute(self, call, where, protected)
def same(name):
    return compare(name, "60%", "coop", 5)["same"]
found = {}
for fault, plant in FAULTS.items():
    exec(plant)
    found[fault] = next((name for name in ("hooks", "convolutions", "transformer") if not same(name)), "")
    Values.run, Values.execute, Values.copy = own
answer(found)
"""


def test_planted_faults_show(child: Runner) -> None:
    """In one of three programs at least: costs are measured, so which ops a plan runs again is not always the same.

    Without the observer, which has a test of its own (test_observer.py).
    """
    found = child(f"FAULTS = {FAULTS!r}\n{PLANT}", CXX="/nowhere/c++")
    assert set(found) == set(FAULTS)
    assert all(found.values()), found


SETTINGS = """
import torch, coopsim.live
torch.set_num_threads(1)
@contextlib.contextmanager
def flushed():
    torch.set_flush_denormal(True)
    try: yield
    finally: torch.set_flush_denormal(False)
@contextlib.contextmanager
def native():
    with flushed(), torch.backends.mkldnn.flags(enabled=False): yield
def train(memory, where):
    torch.manual_seed(0)
    net = torch.nn.ModuleList(torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(8))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    budget, losses = memory and coopsim.live.Budget(memory, device="cpu"), []
    def step():
        h = torch.randn(8, 16, 24, 24)
        for layer in net:
            with native() if where == "forward" else contextlib.nullcontext():
                h = layer(h) + (h.detach() * 1e-40) * 1e38
            h = torch.tanh(h)
        loss = h.square().mean()
        with native() if where == "backward" else contextlib.nullcontext():
            loss.backward()
        opt.step(); opt.zero_grad(); losses.append(loss.item())
    for _ in range(6):
        with budget.step() if memory else contextlib.nullcontext():
            step()
    return losses, [one.tolist() for one in net.parameters()], budget and budget.report()
answer([[train(None, where)[:2] == (there := train("65%", where))[:2], there[2]] for where in ("forward", "backward")])
"""


@pytest.mark.parametrize("compiler", [{}, {"CXX": "/nowhere/c++"}], ids=["observed", "in Python"])
def test_what_runs_again_computes_by_the_settings_of_its_first_run(child: Runner, compiler: dict[str, str]) -> None:
    """In the forward pass without oneDNN and denormal numbers, and again with them; and the other way round."""
    for same, report in child("import contextlib\n" + SETTINGS, **compiler):
        assert same
        assert report["planned_steps"] >= 3, report["unplanned"]
        assert report["recomputes"] > 0


GROWS = """
import torch
from tests.live.compare import FastHost, compare
from tests.live.programs import PROGRAMS
def grows(before, after):
    def program():
        weight = torch.nn.Parameter(torch.ones(64))
        opt = torch.optim.SGD([weight], 0.01)
        def step(i):
            x = torch.randn(512, 64)
            mask = torch.arange(512) < (after if i >= 5 else before)
            y, z = torch.masked_select(x, mask[:, None]).reshape(-1, 64), (x * weight)[:200]
            for _ in range(6):
                y, z = (y * weight).tanh(), (torch.cat([z, y[:9]]) * weight).tanh()
            (loss := y.square().sum() + z.square().mean()).backward(); opt.step(); opt.zero_grad()
            return loss.item()
        return [weight], step
    return program
PROGRAMS["grows"], PROGRAMS["begins"], PROGRAMS["ends"] = grows(300, 320), grows(0, 40), grows(40, 0)
hosts = {"grows": FastHost(), "begins": None, "ends": None}
answer([compare(name, "60%", steps=8, offload=host) for name, host in hosts.items()])
"""


@pytest.mark.parametrize("compiler", [{}, {"CXX": "/nowhere/c++"}], ids=["observed", "in Python"])
def test_sizes_that_hang_on_data_may_be_others_than_in_the_plan(child: Runner, compiler: dict[str, str]) -> None:
    """What is larger does not go to the host, where another lies; what had no bytes makes the step leave its plan."""
    for report in child(GROWS, **compiler):
        assert report["same"]
        assert report["planned_steps"] >= 4
        assert report["offloads"] + report["recomputes"] > 0


LONG = """
import torch
from coopsim.live.planning import Planning
from tests.live.compare import compare
from tests.live.programs import PROGRAMS
ops, learn = [], Planning.learn
def learned(self, signature, **how):
    ops.append(signature.trace.n_ops)
    learn(self, signature, **how)
Planning.learn = learned
def cells():
    net = torch.nn.ModuleList([torch.nn.GRUCell(32, 64), torch.nn.Linear(64, 16)])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    def step(i):
        h, loss = torch.zeros(32, 64), 0.0
        for _ in range(120):
            h = net[0](torch.randn(32, 32), h)
            loss = loss + net[1](h).square().mean()
        loss.backward(); opt.step(); opt.zero_grad()
        return loss.item()
    return [net], step
PROGRAMS["cells"] = cells
answer([compare("cells", "60%", steps=4) | {"ops": min(ops)}])
"""


@pytest.mark.slow
def test_a_step_that_is_planned_as_a_long_one_ends_with_the_same_bits(child: Runner) -> None:
    (report,) = child(LONG)
    assert report["same"]
    assert report["ops"] > at_once.LONG
    assert report["planned_steps"] >= 2, report["unplanned"]
    assert report["recomputes"] > 0


CHANGES = """
import torch, coopsim.live
from coopsim.live import settings
torch.set_num_threads(1)
x, budget = torch.ones(4), coopsim.live.Budget("1GiB", device="cpu")
cudnn, onednn, cublas = torch.backends.cudnn, torch.backends.mkldnn, torch.backends.cuda.matmul
if hasattr(cudnn, "conv"):
    cublas.fp32_precision = "tf32"  # getters of older settings raise from now on
def other(owner, name, *values):
    was = getattr(owner, name)
    return lambda to: setattr(owner, name, to), next(one for one in values if one != was), was
parts = ((one, kind) for one in (cudnn, onednn) for kind in ("conv", "rnn", "matmul"))
precise = [cublas, *(getattr(one, kind) for one, kind in parts if hasattr(one, kind))]
changes = [
    *(other(one, "fp32_precision", "tf32", "ieee") for one in precise if hasattr(cudnn, "conv")),
    *(other(cudnn, name, True, False) for name in ("enabled", "benchmark", "deterministic")),
    other(cudnn, "benchmark_limit", 3, 10),
    (torch.set_num_threads, 2, 1),
    (torch.set_flush_denormal, True, False),
    (torch.set_default_dtype, torch.float64, torch.float32),
    (torch.use_deterministic_algorithms, True, False),
    (lambda to: setattr(torch.utils.deterministic, "fill_uninitialized_memory", to), False, True),
    (torch._C._set_nnpack_enabled, False, True),
    (torch._C._set_sm_carveout_experimental, 16, None),
    (torch.backends.cuda.preferred_linalg_library, "magma", "default"),
    *((getattr(torch.backends.cuda, f"enable_{one}_sdp"), False, True) for one in settings._ATTENTION),
    (torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp, True, False),
    (lambda to: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", to), False, True),
]
found = []
with budget.step():
    observer, usual = budget.session._running._context.observer, settings.now()
    for change, to, back in changes:
        change(to)
        there = observer.is_usual(), settings.now() == usual
        with settings.by(usual):
            inside = observer.is_usual(), settings.now() == usual
        change(back)
        found.append([*there, *inside, observer.is_usual(), settings.now() == usual])
answer(found)
"""


def test_every_setting_is_noticed_by_both_followers_and_set_again(child: Runner) -> None:
    found = child(CHANGES)
    assert found
    assert all(row == [False, False, True, True, True, True] for row in found), found


SWITCHED = """
from tests.live.compare import compare
from coopsim.live import following
switch, stale = following.Following._switch, []
def switched(state, func):
    old = dict(state._follow.storages)
    found = switch(state, func)
    if found:
        now = state.current._follow
        stale.append([one.number for one in old.values() if now.storages.get(one.number) is not one])
    return found
following.Following._switch = switched
answer([compare("a_branch", "60%")["same"], stale])
"""


def test_storages_of_a_plan_that_is_left_for_another_have_no_number_in_that(child: Runner) -> None:
    """Else the copies of other storages would be taken for theirs."""
    same, stale = child(SWITCHED)
    assert same
    assert stale
    assert {number for some in stale for number in some} <= {-1}
