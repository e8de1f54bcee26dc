"""Ways in which gradients are added up, watched and unwatched."""

PROGRAM = """
import torch
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import PhantomDevice
from coopsim.record.observe.recorder import Recorder
from coopsim.cards import profiles

card = profiles.get("a100-80gb")
x = torch.ones(4, 4, device="cuda", requires_grad=True)
(x @ x).sum().backward()  # starts the device's thread, with its workspace
x.grad = None
nn = torch.nn
conv = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True)).cuda()
image = torch.ones(2, 3, 8, 8, device="cuda")

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, grad): return grad + grad * 1

kept = []

def two_uses(a): return (a * 3).sum() + (a * 5).sum()
def three_uses(a): return (a * 3).sum() + (a * 5).sum() + (a * 7).sum()
def shared(a): return (a + a * 3).sum()
def hooked(a):
    b = a * 3
    b.register_hook(kept.append)
    return (b * 1).sum() + (b * 2).sum()
def views(a): return a.view(16).sum() + (a * 5).sum() + a.t().sum()
def function(a): return (Twice.apply(a) + Twice.apply(a * 2)).sum()
def residual(a):
    for _ in range(4):
        a = a + torch.relu(a * 2)
    return a.sum()
def dense(a):
    b, c = torch.relu(a), torch.tanh(a)
    return (b @ c + b * c + a).sum()
def transposed(a): return ((a * 3).t() + a * 2 + (a * 4).t().contiguous()).sum()
def network(a):
    b = conv(image)
    for _ in range(3):
        b = b + conv(b)
    return b.sum()
def retained(a):
    b = a * 3
    b.retain_grad()
    return (b * 1).sum() + (b * 2).sum()

def events(case):
    loss = case(x * 2)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10000)
    loss.backward()
    x.grad = None
    conv.zero_grad()
    found = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    kept.clear()
    return [(event["action"], event["size"]) for event in found]

class Derived(Recorder):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs)

def watched(case, kind=Recorder):
    with kind(PhantomDevice(card), OpCostModel(card, "tf32")):
        return events(case)

cases = [two_uses, three_uses, shared, hooked, views, function, residual, dense, transposed, network, retained]
answer({case.__name__: [events(case), watched(case), watched(case, Derived)] for case in cases})
"""


CASES = [line[4 : line.index("(")] for line in PROGRAM.splitlines() if line.startswith("def ") and "(a)" in line]
