"""Values that no dispatched op makes are made in the step, where their memory was allocated in it."""

PROGRAM = """
import torch
from coopsim.record.observe import assemble, costs, device, recorder
from coopsim.record.observe.interpose.library import load
from coopsim.record.observe.steady import Steady
from coopsim.cards import profiles
from coopsim.trace import measure
ones = [1.0] * 256
weight = torch.nn.Parameter(torch.ones(256, device="cuda"))
zeros = torch.zeros(256, device="cuda")
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 256, device="cuda")
def through_data():
    made = torch.empty(0, device="cuda")
    made.data = torch.tensor(ones, device="cuda")
    return made
def from_before():
    before.backward(retain_graph=True)
    weight.grad = None
    return weight.detach()
class Moded(recorder.Recorder):
    active = True
card = profiles.get("a100-80gb")
def record(make, warmup=2):
    def step():
        value = make()
        (model(x) * 2 + value).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    with kind(device.PhantomDevice(card), costs.OpCostModel(card, None)) as watcher:
        for _ in range(warmup):
            step()
        steady = Steady(watcher)
        step()
        recording, about = steady.stop()
        history = watcher.device.history.stop()
    trace = assemble.assemble(recording, history, about)
    at_start = sum(trace.bytes[s] for s in range(len(trace.bytes)) if trace.alive_at_start[s])
    made = [[int(trace.bytes[s]) for s in c] for n, c in zip(trace.name, trace.creates) if n == "storage.made"]
    exact = bool(measure.peak_bytes(trace) == about["peak_live_bytes"])
    return made, int(at_start), trace.header["lost_storages"], trace.header["leaked_storages"], exact
def twice():
    made = torch.tensor(ones, device="cuda")
    del made
    return torch.tensor(ones, device="cuda")  # at the same address
def members():
  return {
    "tensor": record(lambda: torch.tensor(ones, device="cuda")),
    "scalar": record(lambda: torch.tensor(0.0, device="cuda")),
    "integers": record(lambda: torch.tensor([1] * 256, device="cuda")),
    "as_tensor": record(lambda: torch.as_tensor(ones, device="cuda")),
    "new_tensor": record(lambda: x.new_tensor(ones)),
    "data": record(through_data),
    "twice": record(twice),
    "dlpack": record(lambda: torch.from_dlpack(torch.ones(256, device="cuda"))),
    "before": record(from_before, warmup=0),
}
answers = []
for kind in recorder.Recorder, Moded:
    before = torch.nn.functional.margin_ranking_loss(weight, zeros, zeros)  # the graph keeps two results, unseen
    answers.append([kind is Moded or load() is None, members()])
answer(answers)
"""


def test_a_value_that_no_op_makes(on_phantom) -> None:
    """Watched below autograd, and by a dispatch mode."""
    for mode, found in on_phantom(PROGRAM):
        check(found, mode=mode)


def check(found: dict, *, mode: bool) -> None:
    before = found.pop("before")
    found_at_start = 1024 * (256 + 1 + 64 + 2) + 4  # parameters, x, the weight, zeros, and the loss
    assert before[:4] == [[], found_at_start + 2 * 1024, 0, 0]  # it was there
    sizes = {"scalar": 4, "integers": 2048}
    dlpack, twice = found.pop("dlpack"), found.pop("twice")
    for how, (made, at_start, lost, leaked, exact) in found.items():
        assert (made, at_start, lost, leaked, exact) == ([[sizes.get(how, 1024)]], found_at_start, 0, 0, True), how
    assert twice[0] in ([[1024], [1024]], [[1024]])
    assert twice[1:] == [found_at_start, 0, 0, True]
    assert dlpack[1:4] == [found_at_start, 0, 0]
    assert mode or dlpack[0] == []  # two storages over the same memory count once
