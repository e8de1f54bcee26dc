"""Steps without a plan: what finds no room goes to the host; what a plan has evicted is made again as it is left."""

from typing import Any

import pytest

from tests.conftest import Runner
from tests.live.names import NAMES

IMPORT = """
import torch
from coopsim.live.state import Spilling
from coopsim.record.observe import effects
from tests.live.made_up import ATEN, KIB, parts
step = parts()
step.context.runner.keep_calls(True)
x = torch.arange(4.0)
values, spilled = step.context.values, step.context.values.spilled
def send(tensor): return spilled.sent((step.tracked(tensor), step.tracked(tensor).version))
"""


def test_an_op_gets_what_was_sent(child: Runner) -> None:
    """With the same bits, and as it was changed; a storage whose address is known stays."""
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
step.run(ATEN.add_.Scalar, y, 1)
sent, bytes_there = send(y), spilled.nbytes
away = step.evicted(y)
out = step.run(ATEN.neg.default, y)
step.tracked(y).pinned = True
stays = step.tracked(y) not in [tracked for tracked, _ in spilled.candidates([])]
answer([sent, bytes_there, away, out.tolist(), step.evicted(y), spilled.nbytes, stays])
"""
    assert child(IMPORT + text) == [16, 16, [True], [-1, -3, -5, -7], [False], 0, True]


def test_copies_of_what_the_program_frees_go(child: Runner) -> None:
    text = """
step.context.runner.keep_calls(False)
y = step.run(ATEN.mul.Scalar, x, 2)
send(y)
del y
answer(spilled.nbytes)
"""
    assert child(IMPORT + text) == 0


def test_what_no_op_has_used_yet_goes_first(child: Runner) -> None:
    """As the parameters of layers to come, which nothing has tracked so far."""
    text = """
weight = torch.ones(1 << 20)
y = step.run(ATEN.mul.Scalar, x, 2)
with effects.on("cpu"): order = [tracked for tracked, _ in spilled.candidates([])]
answer(order.index(step.tracked(weight)) < order.index(step.tracked(y)))
"""
    assert child(IMPORT + text)


def test_all_that_may_move_is_laid_out_anew_in_its_order(child: Runner) -> None:
    """With the same bits, also if it is interrupted; what has a known address stays, or no room on the host."""
    text = """
step.context.runner.keep_calls(False)
tensors = [step.run(ATEN.mul.Scalar, torch.arange(n * KIB), 2) for n in (3, 5, 4)]
known = step.run(ATEN.mul.Scalar, x, 3)
step.tracked(known).pinned = True
order, there, asked = sorted(tensors, key=torch.Tensor.data_ptr), known.data_ptr(), []
def allocate(nbytes):
    asked.append(nbytes)
    return values.allocate(nbytes)
with effects.on("cpu"): spilled.lay_out(asked.clear, allocate)
same = [t.equal(torch.arange(n * KIB) * 2) for n, t in zip((3, 5, 4), tensors)]
sizes = [t.nbytes for t in order]
in_order, back = [n for n in asked if n in sizes] == sizes, not spilled.nbytes and not any(step.evicted(*tensors))
def interrupt(): raise KeyboardInterrupt
with effects.on("cpu"):
    try: spilled.lay_out(interrupt, values.allocate)
    except KeyboardInterrupt: away = step.evicted(*tensors)
    values.finish()
same += away + [t.equal(torch.arange(n * KIB) * 2) for n, t in zip((3, 5, 4), tensors)]
from coopsim.live import copies
copies.is_phantom, copies.available, gone = lambda: False, lambda: 0, []
with effects.on("cpu"): spilled.lay_out(lambda: gone.extend(step.evicted(*tensors)), values.allocate)
same += [t.equal(torch.arange(n * KIB) * 2) for n, t in zip((3, 5, 4), tensors)]
answer([same, in_order, known.data_ptr() == there, back, gone])
"""
    assert child(IMPORT + text) == [[True] * 12, True, True, True, [False] * 3]


LAID_OUT = """
from dataclasses import replace
import torch
from torch import nn
import coopsim.live
model = nn.Sequential(*[nn.TransformerEncoderLayer(512, 4, 2048, batch_first=True) for _ in range(8)]).cuda()
x, optimizer = torch.randn(32, 256, 512, device="cuda"), torch.optim.Adam(model.parameters())
budget = coopsim.live.Budget("1500MiB")
def steps(n):
    for _ in range(n):
        with budget.step():
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return budget.report()["offloads"]
steps(4)
report, sent, known = budget.report(), [steps(1)], budget.session.known.last
known.state = replace(known.state, stays=True, ran_out=1)
sent.append(steps(1))
answer([report, sent])
"""


def test_a_plan_finds_what_steps_without_one_have_left_laid_out(child: Runner) -> None:
    """Where they have fetched it to, no plan of the third and fourth step finds room between its blocks.

    So does each step by the last plan, once one has run out of memory by it.
    """
    report, (then, laid_out) = child(LAID_OUT, card="h100-80gb", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert (report["planned_steps"], report["deviated"]) == (2, "")
    assert then == report["offloads"]
    assert laid_out > then


ZEROS = """
import torch
import coopsim.live
MB, budget = 1 << 20, coopsim.live.Budget("100MiB")
weight = torch.ones(2 * MB, device="cuda", requires_grad=True)
with budget.step():
    zeros = torch.zeros(8 * MB, device="cuda")
    for _ in range(4):
        made = torch.ones(8 * MB, device="cuda")
        made.mul_(2)
    sent = budget.session._running.residency.spills
    (zeros[: 2 * MB] * weight).sum().backward()
answer([sent, budget.report()["steps"]])
"""


def test_zeros_that_were_sent_before_their_first_use_come_back(child: Runner) -> None:
    """To be looked at, whether nobody has written to them past the dispatcher."""
    sent, steps = child(ZEROS)
    assert sent > 0
    assert steps == 1


MADE = """
def left(*evicted):
    for tensor in evicted: step.evict(tensor)
    Spilling(step.context, None).begin()
    found = [tracked for tracked in step.context.storages.all if tracked.held or tracked.makers]
    return [step.evicted(*evicted), len(found), step.context.residency.recomputes]
"""


def test_what_a_plan_has_evicted_is_made_again_when_it_is_left(child: Runner) -> None:
    """Each op once, by way of what the program has freed; nothing is kept for it afterwards."""
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
gone = step.run(ATEN.add.Scalar, y, 1)
z, w = step.run(ATEN.neg.default, gone), step.run(ATEN.exp.default, gone)
del gone
found = left(y, z, w)
answer([found, y.tolist(), z.tolist(), w.equal(z.neg().exp())])
"""
    assert child(IMPORT + MADE + text) == [[[False] * 3, 0, 4], [0, 2, 4, 6], [-1, -3, -5, -7], True]


def test_a_value_that_was_changed_in_place_is_made_again(child: Runner) -> None:
    """All of its versions; and what comes from an older one, too."""
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
old = step.run(ATEN.neg.default, y)
step.run(ATEN.add_.Scalar, y, 1)
step.run(ATEN.mul_.Scalar, y, 10)
answer([left(y, old), y.tolist(), old.tolist()])
"""
    found, y, old = child(IMPORT + MADE + text)
    assert (found[:2], y, old) == ([[False, False], 0], [10, 30, 50, 70], [0, -2, -4, -6])


def test_random_numbers_and_statistics_are_as_at_first(child: Runner) -> None:
    """A call runs again by the state that the generator had, and leaves that as it is; statistics change once."""
    text = """
torch.manual_seed(3)
y = step.run(ATEN.rand_like.default, x)
was, state = y.tolist(), torch.get_rng_state()
mean, var = torch.zeros(2), torch.ones(2)
images = torch.arange(8.0).reshape(2, 2, 2)
out, *_ = step.run(ATEN.native_batch_norm.default, images, None, None, mean, var, True, 0.5, 1e-5)
before, once = out.tolist(), mean.tolist()
left(y, out)
answer([y.tolist() == was, bool((torch.get_rng_state() == state).all()), out.tolist() == before, mean.tolist() == once])
"""
    assert child(IMPORT + MADE + text) == [True] * 4


def test_what_finds_no_room_meanwhile_goes_to_the_host(child: Runner) -> None:
    """Values that were made already, and those that are made on the way."""
    text = """
step = parts(24 * KIB)
step.context.runner.keep_calls(True)
spilled = step.context.values.spilled
x = torch.arange(1024.0)
made = [x]
for k in range(10):
    made.append(step.run(ATEN.add.Scalar, made[-1], 1))
    if k % 3 == 1: del made[-2]
ledger = step.context.residency.ledger
for one in made: ledger.of_storage(one.untyped_storage())
for one in made[1:]: step.evict(one)
del one
ledger.count_peak()
Spilling(step.context, None).begin()
peak, sent = ledger.peak_bytes, spilled.nbytes
step.context.room.limit = None
step.materialize(*made)
answer([peak <= 24 * KIB, sent > 0, [int(one[0]) for one in made]])
"""
    fits, sent, found = child(IMPORT + text)
    assert fits
    assert sent
    assert found == sorted(found)
    assert len(found) == 8


def test_views_and_ops_elsewhere_make_nothing(child: Runner) -> None:
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
_, view = step.ran(ATEN.view.default, y, [2, 2])
_, meta = step.ran(ATEN.mul.Scalar, torch.empty(2, device="meta"), 2)
answer([view.call is None, view.results == [step.tracked(y)], meta.inputs, meta.call])
"""
    assert child(IMPORT + text) == [True, True, [], None]


ON_CPU = """
import torch
from coopsim.live import step as steps
from coopsim.live.schedules import Search
from tests.live.compare import compare
steps._SPILLS.add("cpu")  # where numbers are real
restore = torch.set_rng_state
torch.set_rng_state = lambda state: restore(state.clone())  # read past the dispatcher, as on a GPU none on it is
Search.first, Search.too_much = lambda self: "no plan", lambda self: ""  # what does not fit spills, as on a GPU
answer({{name: compare(name, "{memory}", steps={steps}) for name in {names!r}}})
"""


#: Beside the budget: states of generators, which lie on a GPU's host, and what numpy makes, as no GPU has it.
BESIDE = 3 * 5056
NUMPY = {"own_kernel": 1 << 16}


def check(found: dict[str, dict[str, Any]]) -> None:
    for name, report in found.items():
        assert report["same"], name
        assert report["offloads"] > 0, (name, report)
        assert report["recomputes"] == report["planned_steps"] == 0, (name, report)
        most = report["budget_bytes"] + BESIDE + NUMPY.get(name, 0)
        assert report["peak_allocated_bytes"] <= most, (name, report)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_programs_end_with_the_same_bits(child: Runner, part: int) -> None:
    check(child(ON_CPU.format(names=NAMES[part::4], steps=5, memory="60%")))


def test_on_the_phantom_gpu_what_is_sent_takes_no_memory_of_the_host(child: Runner) -> None:
    """Its data are zeros. Large models would not fit."""
    text = """
import resource
import torch
from coopsim.live.copies import bytes_of, host_memory
there = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
copied = bytes_of(host_memory(1 << 30))
there.copy_(copied.copy_(there))
answer((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    assert child(text, card="a100-80gb") < 100  # MiB
