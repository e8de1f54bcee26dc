"""What is recorded of a step: its trace, and the list of all ops that it dispatches."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live import device
from coopsim.live.op_log import StepRecorder
from coopsim.record.observe import effects
from coopsim.base.types import Role
from tests.live.made_up import ATEN, MUL, NEG, SUB, parts
step = parts()
ledger = step.context.residency.ledger
exits = effects.on("cpu"); exits.__enter__()
recorder = StepRecorder(ledger, "cpu", step.context.runner, None)
x, w = torch.arange(4.0), torch.ones(4)
ledger.of(w).role = Role.PARAMETER
recorder.begin()
run = lambda func, *args: recorder.__torch_dispatch__(func, (), args, {})
"""


def test_ops_views_and_reads(child: Runner) -> None:
    """A view is in the list and no op of the trace; an op that reads data and makes nothing is one, without results."""
    text = """
a = run(MUL, x, 2)
v = run(ATEN.view.default, a, [2, 2])
n = run(ATEN._local_scalar_dense.default, run(ATEN.sum.default, v))
recorder.end(learn=False)
trace = recorder.trace()
op_log = [[entry.op, entry.inputs, entry.results] for entry in recorder.op_log]
answer([op_log, trace.name[:3], trace.creates.rows()[:3], trace.reads.rows()[:3], n])
"""
    op_log, names, creates, reads, n = child(IMPORT + text)
    assert [name.partition(".")[2].partition(".")[0] for name in names] == ["mul", "sum", "_local_scalar_dense"]
    assert [op for op, _, _ in op_log] == [0, -1, 1, 2]
    (x,), (a,) = op_log[0][1:]
    (total,) = op_log[2][2]
    assert op_log[1][1:] == [[a], [a]]
    assert op_log[3][1:] == [[total], []]
    assert creates == [[a], [total], []]
    assert reads == [[x], [a], [total]]
    assert n == 12


def test_the_batch_is_known_where_data_meet_a_parameter(child: Runner) -> None:
    """Or what is made of parameters alone: under autocast data meet copies only, until the optimizer's step."""
    text = """
found = []
a = run(MUL, x, 2); found.append(recorder.decided)
b = run(NEG, w); found.append(recorder.decided)
c = run(SUB, b, w); found.append(recorder.decided)
d = run(SUB, a, c); found.append(recorder.decided)
answer(found)
"""
    assert child(IMPORT + text) == [0, 0, 0, 4]


def test_values_that_may_be_read_late_are_held(child: Runner) -> None:
    """What is alive at the update of parameters is read when it goes, and what is left at the end is read there."""
    text = """
from coopsim.live.plan import HOLD
from coopsim.live.op_log import _hold_to_the_end
from coopsim.record.observe.recording import Free, Op, Recording
from coopsim.record.observe.storages import Storage
from coopsim.base.types import Phase
tensors = run(MUL, x, 2), run(NEG, x)
recorder.end(learn=False)
recording = recorder.recorded
loss, out = (ledger.of(tensor) for tensor in tensors)
recording.events += [Op(-1, HOLD, Phase.OPTIMIZER, "", 0, [loss, out], []), Free(loss)]
_hold_to_the_end(recording)
names = {loss: "loss", out: "out"}
answer([[names[s] for s in e.reads] for e in recording.events if isinstance(e, Op) and e.name == HOLD])
"""
    assert child(IMPORT + text) == [["loss", "out"], ["loss"], ["loss", "out"]]


RNN = """
import torch
import coopsim.live
layers = [layer for _ in range(24) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
net, head = torch.nn.GRU(64, 64, batch_first=True).cuda(), torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.1)
x, budget = torch.zeros(256, 64, 64, device="cuda"), coopsim.live.Budget("60%")
for _ in range(6):
    with budget.step():
        head(net(x)[0]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
answer(budget.report())
"""


def test_an_op_that_gives_a_tensor_another_storage_is_followed(child: Runner) -> None:
    """As RNNs do with their weights in each step (`set_`), whose operand has no bytes before."""
    report = child(RNN)
    assert report["deviated"] == ""
    assert report["planned_steps"] >= 3
    assert report["evictions"] > 0
