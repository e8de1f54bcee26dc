"""The states of a step, and how it goes on from one to another."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.following import Following
from coopsim.live.signatures import PlanState
from coopsim.live.following import Recording
from coopsim.live.state import Spilling
from tests.live.made_up import MUL, NEG, Op, calls, example, signature, parts, plan, row
x = torch.arange(4.0)
planned, longer = signature(example()), signature(example(NEG))
step = parts(signatures=[planned])
step.context.runner.keep_calls(True)
class Recorder:
    def __init__(self): self.op_log, self.did = [], []
    def begin(self): self.did.append("begin")
    def commit(self): self.did.append("commit")
    def end(self, *, learn): self.did.append("learned" if learn else "end")
    def __torch_dispatch__(self, func, types, args, kwargs):
        out, ran = step.ran(func, *args)
        self.op_log.append(Op(func, [], []))
        self.op_log[-1].ran = ran
        return out
def begun(state):
    state.begin()
    return state
def run(state):
    return lambda func, *args: state.current.__torch_dispatch__(func, (), args, {})
name = lambda state: type(state.current).__name__
"""


def test_a_step_of_a_known_kind_follows_its_plan(child: Runner) -> None:
    """Once its first ops have told; what they have made can be made again."""
    text = """
state = begun(Recording(step.context, recorder := Recorder(), [signature(example(), decided=2)]))
found = [[name(state), out.tolist()] for out in calls(x, run(state))]
state.current.stop(); state.current.conclude(failed=False)
answer([found, recorder.did, name(state), step.context.residency.recomputes])
"""
    found, did, last, recomputes = child(IMPORT + text)
    assert [state for state, _ in found] == ["Recording", "Following", "Following", "Following"]
    assert found[-1][1] == [1, 1, 1, 1]
    assert did == ["begin", "end"]
    assert (last, recomputes) == ("Following", 1)


def test_a_step_of_a_new_kind_is_recorded_to_its_end(child: Runner) -> None:
    text = """
other = signature(plan([row(Op(NEG, [0], [1], 0))], [0, 1]))
state = begun(Recording(step.context, recorder := Recorder(), [other]))
found = [name(state) for _ in calls(x, run(state))]
state.current.end(learn=True)
answer([found, recorder.did])
"""
    assert child(IMPORT + text) == [["Recording"] * 4, ["begin", "commit", "learned"]]


def test_a_kind_without_a_plan_spills(child: Runner) -> None:
    text = """
planned.state = PlanState()
state = begun(Recording(step.context, recorder := Recorder(), [planned]))
found = [name(state) for _ in calls(x, run(state))]
answer([found, recorder.did, state.current.left is None, state.current.signature is planned])
"""
    assert child(IMPORT + text) == [["Spilling"] * 4, ["begin", "end"], True, True]


def test_another_op_leaves_the_plan(child: Runner) -> None:
    """And what the plan has evicted is made again where an op asks for it.

    If it is one of the first, by which signatures are told, these are to tell from then on.
    """
    text = """
state, ran = begun(Following(step.context, planned)), []
ops = calls(x, run(state))
a, b, c = (next(ops) for _ in range(3))
evicted = state._follow.storages.values()
evicted = [tracked.evicted for tracked in evicted]
out = run(state)(MUL, a, 3)
left = state.current.left
first = begun(Following(parts(signatures=[planned]).context, planned))
run(first)(NEG, x)
answer([evicted, name(state), out.tolist(), left.why, left.decide, left.ran_out, first.current.left.decide])
"""
    evicted, state, out, why, *flags = child(IMPORT + text)
    assert evicted == [False, True, False, False]
    assert (state, out) == ("Spilling", [0, 6, 12, 18])
    assert why == "op 3: aten.mul.Scalar instead of aten.sub.Tensor"
    assert flags == [False, False, True]


def test_a_step_that_ends_early_has_left_its_plan(child: Runner) -> None:
    text = """
found = []
for failed in (True, False):
    state = begun(Following(parts().context, planned))
    state.stop()
    state.conclude(failed=failed)
    found.append([name(state), state.current.planned])
answer([found, state.current.left.why])
"""
    assert child(IMPORT + text) == [[["Following", True], ["Spilling", False]], "the step ended early"]


def test_a_step_switches_to_a_plan_that_is_the_same_so_far(child: Runner) -> None:
    text = """
other = example()
other.rows[3] = row(Op(MUL, [1], [4], 3))
other = signature(other)
step.context.signatures.append(other)
state = begun(Following(step.context, planned))
ops = calls(x, run(state))
a, b, c = (next(ops) for _ in range(3))
out = run(state)(MUL, a, 3)
answer([name(state), state.current is state, state.current.signature is other, out.tolist()])
"""
    assert child(IMPORT + text) == ["Following", False, True, [0, 6, 12, 18]]
