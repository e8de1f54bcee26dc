"""Ops that run one by one: what they made can be made again, whatever the program overwrites or draws meanwhile."""

from tests.conftest import Runner

IMPORT = """
import torch
from tests.live.made_up import ATEN, parts
step = parts(1 << 20)
x = torch.arange(4.0)
"""


def test_an_evicted_operand_is_made_again(child: Runner) -> None:
    """With the evicted values that it is made from, which go again."""
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
z = step.run(ATEN.add.Scalar, y, 1)
step.evict(y), step.evict(z)
out = step.run(ATEN.neg.default, z)
held = [tracked for tracked in step.context.storages.all if tracked.held]
answer([out.tolist(), step.evicted(y, z), step.context.residency.recomputes, held])
"""
    assert child(IMPORT + text) == [[-1, -3, -5, -7], [False, False], 2, []]


def test_a_value_that_was_changed_in_place_is_made_again(child: Runner) -> None:
    """All of its versions; and what comes from an older one, too."""
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
old = step.run(ATEN.neg.default, y)
step.run(ATEN.add_.Scalar, y, 1)
step.run(ATEN.mul_.Scalar, y, 10)
versions = step.tracked(y).version
for tensor in (y, old): step.evict(tensor)
step.materialize(y)
step.materialize(old)
answer([versions, y.tolist(), old.tolist(), step.tracked(y).version])
"""
    assert child(IMPORT + text) == [2, [10, 30, 50, 70], [0, -2, -4, -6], 2]


def test_what_hangs_on_an_overwritten_value_comes_back_before(child: Runner) -> None:
    """No call makes that, and it is too large to be copied; what came from it is not evicted any more."""
    text = """
x = torch.arange(64.0)
y = step.run(ATEN.mul.Scalar, x, 2)
step.evict(y)
step.run(ATEN.zero_.default, x)
answer([step.evicted(y), y.tolist()[:4], step.context.room.victims.best([]) is None])
"""
    assert child(IMPORT + text) == [[False], [0, 2, 4, 6], True]


def test_what_comes_from_an_updated_parameter_can_be_evicted(child: Runner) -> None:
    """What the update has read is gone, so the parameter is a root anew, after each update."""
    text = """
p = torch.arange(64.0)
for _ in range(2): step.run(ATEN.add_.Scalar, p, 1)
y = step.run(ATEN.mul.Scalar, p, 2)
found = step.context.room.victims.best([]) is step.tracked(y)
step.evict(y)
step.materialize(y)
answer([found, y.tolist()[:3]])
"""
    assert child(IMPORT + text) == [True, [4, 6, 8]]


def test_the_parts_of_a_sum_are_made_one_at_a_time(child: Runner) -> None:
    """Beside the sum so far: not all of them first."""
    text = """
x = torch.zeros(1024)
y = step.run(ATEN.mul.Scalar, x, 2)
for _ in range(5): step.run(ATEN.add_.Tensor, y, step.run(ATEN.mul.Scalar, x, 3))
step.evict(y)
ledger = step.context.residency.ledger
ledger.count_peak()
before = ledger.live_bytes
step.materialize(y)
answer((ledger.peak_bytes - before) / x.nbytes)
"""
    assert child(IMPORT + text) == 2


def test_what_an_op_reads_gives_way_while_its_other_operand_is_made(child: Runner) -> None:
    """As the output of an activation does while the gradient that it is multiplied by is made from two others."""
    text = """
step = parts(4608)
x = torch.arange(256.0)
a, b = step.run(ATEN.mul.Scalar, x, 2), step.run(ATEN.mul.Scalar, x, 5)
d = step.run(ATEN.sub.Tensor, b, a)
for one in (a, b, d): step.evict(one)
del a, b, one
w = step.run(ATEN.neg.default, x)
ledger = step.context.residency.ledger
for one in (x, w): ledger.of_storage(one.untyped_storage())
ledger.count_peak()
out = step.run(ATEN.sub.Tensor, d, w)
answer([out.tolist()[:3], ledger.peak_bytes, step.context.residency.recomputes])
"""
    out, peak, recomputes = child(IMPORT + text)
    assert out == [0, 4, 8]
    assert peak <= 4608
    assert recomputes == 4  # the three, and what gave way


def test_a_small_root_is_copied_before_it_is_overwritten(child: Runner) -> None:
    text = """
step = parts(1 << 30)
y = step.run(ATEN.mul.Tensor, torch.ones(4), x)
step.run(ATEN.zero_.default, x)
step.evict(y)
step.materialize(y)
answer([y.tolist(), x.tolist()])
"""
    assert child(IMPORT + text) == [[0, 1, 2, 3], [0, 0, 0, 0]]


def test_random_numbers_are_drawn_once(child: Runner) -> None:
    """A call runs again by the state that the generator had, and leaves that as it is."""
    text = """
torch.manual_seed(3)
y = step.run(ATEN.rand_like.default, x)
was, state = y.tolist(), torch.get_rng_state()
step.evict(y)
step.materialize(y)
answer([y.tolist() == was, bool((torch.get_rng_state() == state).all())])
"""
    assert child(IMPORT + text) == [True, True]


def test_statistics_are_updated_once(child: Runner) -> None:
    """An op that makes something changes others on the side; running it again does not, and makes no version."""
    text = """
mean, var = torch.zeros(2), torch.ones(2)
images = torch.arange(8.0).reshape(2, 2, 2)
out, *_ = step.run(ATEN.native_batch_norm.default, images, None, None, mean, var, True, 0.5, 1e-5)
was, once = out.tolist(), mean.tolist()
step.evict(out)
step.materialize(out)
answer([out.tolist() == was, mean.tolist() == once != [0, 0], step.tracked(mean).version])
"""
    assert child(IMPORT + text) == [True, True, 0]


def test_views_and_ops_elsewhere_make_nothing(child: Runner) -> None:
    text = """
y = step.run(ATEN.mul.Scalar, x, 2)
view = step.ran(ATEN.view.default, y, [2, 2])
meta = step.ran(ATEN.mul.Scalar, torch.empty(2, device="meta"), 2)
answer([view.call is None, view.results == [step.tracked(y)], meta.inputs, meta.call])
"""
    assert child(IMPORT + text) == [True, True, [], None]


def test_what_has_as_many_elements_as_its_data_say_is_not_evicted(child: Runner) -> None:
    """Without the data, as on the phantom GPU, it would be of another size when made again."""
    text = """
found = step.run(ATEN.nonzero.default, torch.arange(64.0))
y = step.run(ATEN.mul.Scalar, found, 2)
rows = torch.ones(8, 64)
by_mask = step.run(ATEN.index.Tensor, rows, [torch.arange(8) > 3])
by_number = step.run(ATEN.index.Tensor, rows, [torch.arange(4)])
best, kept = step.context.room.victims.best, []
while (one := best(kept)) is not None:
    kept.append(one)
answer([any(one is step.tracked(tensor) for one in kept) for tensor in (found, y, by_mask, by_number)])
"""
    assert child(IMPORT + text) == [False, True, False, True]
