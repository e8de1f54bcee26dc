"""A plan that is carried out op by op, on the tensors of a made-up step."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.errors import Deviation, Outgrown
from coopsim.live.follow import Follow
from coopsim.live.following import check_elements
from tests.live.made_up import MUL, NEG, SUB, Op, calls, example, parts, plan, row
step, x = parts(), torch.arange(4.0)
follow = Follow(example(), step.context.values, step.context.storages)
residency = step.context.residency
def run(func, *args):
    out = follow.run(follow.rows[follow.at], args, {})
    follow.advance()
    return out
def refused(call):
    try: call()
    except Deviation as why: return [type(why).__name__, str(why)]
"""


def test_values_are_evicted_and_made_again(child: Runner) -> None:
    text = """
found = [[out.tolist(), follow.storages[1].evicted] for out in calls(x, run)]
answer([found, residency.evictions, residency.recomputes])
"""
    found, *counts = child(IMPORT + text)
    assert found[0] == [[0, 2, 4, 6], False]
    assert [evicted for _, evicted in found] == [False, False, True, False]
    assert found[3][0] == [1, 1, 1, 1]
    assert counts == [1, 1]


def test_other_tensors_are_noticed_before_anything_is_done(child: Runner) -> None:
    text = """
*_, c = (ran := calls(x, run), *(next(ran) for _ in range(3)))
last = follow.rows[3]
b = follow.storages[2].ref()
tensor = torch.empty(0).set_(b, 0, (4,), (1,))
found = [refused(lambda: follow.run(last, given, {})) for given in ((tensor, c), (tensor,))]
answer([found, residency.recomputes, follow.started])
"""
    other, missing = ["Deviation", "works on other tensors"], ["Deviation", "has other operands"]
    assert child(IMPORT + text) == [[other, missing], 0, False]


def test_larger_data_are_noticed(child: Runner) -> None:
    text = """
first = row(Op(MUL, [0], [1], 0), elements=[4])
answer([refused(lambda: check_elements(first, [torch.zeros(n)])) for n in (4, 5)])
"""
    assert child(IMPORT + text) == [None, ["Outgrown", "works on larger tensors"]]


def test_a_change_that_the_plan_does_not_have_is_noticed(child: Runner) -> None:
    """Of a storage that it knows. Of any other the plan knows nothing, and need not."""
    text = """
a = next(calls(x, run))
add = row(Op(torch.ops.aten.add_.Scalar, [-1], [-1], mutable=True), look=[], find=[], call=False)
answer([refused(lambda: follow.run(add, (tensor, 1), {})) for tensor in (a, torch.zeros(4))])
"""
    assert child(IMPORT + text) == [["Deviation", "changes other tensors"], None]


def test_a_plan_takes_over_in_the_middle(child: Runner) -> None:
    """What it would have evicted by then is evicted, and can be made again by the calls that were kept."""
    text = """
before = []
step.context.runner.keep_calls(True)
def kept(func, *args):
    out, ran = step.ran(func, *args)
    before.append(ran)
    return out
a, b, c = (out for _, out in zip(range(3), calls(x, kept)))
other = Follow(example(), step.context.values, step.context.storages)
mixed = [before[0], before[1]._replace(inputs=before[0].inputs), before[2]]  # `b` was made from `x`
found = [other.take_over(mixed), *step.evicted(a)]
found += [follow.take_over(before), *step.evicted(a), follow.at]
answer([found, run(SUB, b, a).tolist(), *step.evicted(a)])
"""
    assert child(IMPORT + text) == [[False, False, True, True, 3], [1, 1, 1, 1], False]


def test_memory_that_a_later_op_fills_is_made_again(child: Runner) -> None:
    """As a mask of dropout on the CPU: the plan knows that all of it is written; without a plan nobody does."""
    text = """
fill = Op(torch.ops.aten.fill_.Scalar, [1], [1], 1)
rows = [row(Op(torch.ops.aten.empty_like.default, [0], [1], 0)), row(fill, makes=[(1, 1)], copies=[(1, 0)])]
follow, before = Follow(plan(rows, range(2)), step.context.values, step.context.storages), []
step.context.runner.keep_calls(True)
mask = None
for func, given in ((rows[0].func, (x,)), (rows[1].func, (None, 3))):
    mask, ran = step.ran(func, *(mask if one is None else one for one in given))
    before.append(ran)
results = before[0].results
unknown = [list(tracked.makers) for tracked in results]
answer([unknown, follow.take_over(before), [sorted(tracked.makers) for tracked in results]])
"""
    assert child(IMPORT + text) == [[[1]], True, [[0, 1]]]


def test_what_the_program_lets_go_is_held(child: Runner) -> None:
    """Also what an op has made before the plan takes over."""
    text = """
def left(follow): return follow.storages[1].ref() is not None, residency.memory_of((follow.storages[1], 0)) is not None
rows = [row(Op(MUL, [0], [1], 0), keep=[(1, 0)]), row(Op(NEG, [0], [2], 1))]
follow, late = (Follow(plan(rows, range(3)), step.context.values, step.context.storages) for _ in range(2))
run(MUL, x, 2)
step.context.runner.keep_calls(True)
_, ran = step.ran(MUL, x, 2)
took = late.take_over([ran])
step.context.runner.keep_calls(False)  # as once a step goes by plan: no recording keeps what its ops have used
del _, ran
answer([*left(follow), took, *left(late)])
"""
    assert child(IMPORT + text) == [True] * 5
