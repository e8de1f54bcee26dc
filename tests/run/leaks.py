"""Small training scripts in pairs: one whose memory grows from step to step, as people write it, and one much like it.

HEAD is what all begin with.
"""

from dataclasses import dataclass

HEAD = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())


def data():
    return torch.randn(32, 256, device="cuda")


def train(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

"""


@dataclass(frozen=True)
class Pair:
    """`leaks` grows at the line that is marked with `# here`, and `name` holds what is kept; `clean` does not grow."""

    name: str
    leaks: str
    clean: str


PAIRS = {
    "loss in a total": Pair(
        "total",
        """
total = 0
for i in range(16):
    loss = model(data()).square().mean()
    train(loss)
    total += loss  # here
""",
        """
total = 0
for i in range(16):
    loss = model(data()).square().mean()
    train(loss)
    total += loss.item()
""",
    ),
    "losses in a list": Pair(
        "losses",
        """
losses = []
for i in range(16):
    loss = model(data()).square().mean()
    train(loss)
    losses.append(loss)  # here
""",
        """
losses = []
for i in range(16):
    loss = model(data()).square().mean()
    train(loss)
    losses.append(float(loss))
""",
    ),
    "outputs in a list": Pair(
        "outputs",
        """
def main():
    outputs = []
    for i in range(16):
        out = model(data())
        train(out.square().mean())
        outputs.append(out.detach())  # here

main()
""",
        """
def main():
    outputs = []
    for i in range(16):
        out = model(data())
        train(out.square().mean())
        outputs.append(out.detach().cpu())

main()
""",
    ),
    "a hook that keeps activations": Pair(
        "kept",
        """
kept = []
model[0].register_forward_hook(lambda module, args, out: kept.append(out))  # here
for i in range(16):
    train(model(data()).square().mean())
""",
        """
kept = []
model[0].register_forward_hook(lambda module, args, out: kept.append(out))
for i in range(16):
    kept.clear()
    train(model(data()).square().mean())
""",
    ),
    "a hook in a closure": Pair(
        "seen",
        """
def watch(layer):
    seen = []
    def hook(module, args, out):
        seen.append(out.detach())  # here
    layer.register_forward_hook(hook)

watch(model[1])
for i in range(16):
    train(model(data()).square().mean())
""",
        """
def watch(layer):
    seen = []
    def hook(module, args, out):
        seen[:] = [out.detach()]
    layer.register_forward_hook(hook)

watch(model[1])
for i in range(16):
    train(model(data()).square().mean())
""",
    ),
    "a metric object": Pair(
        "metric.predictions",
        """
class Metric:
    def __init__(self):
        self.predictions = []
    def update(self, out):
        self.predictions.append(out)  # here

metric = Metric()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    metric.update(out.detach().argmax(1))
""",
        """
class Metric:
    def __init__(self):
        self.sum = torch.zeros(64, device="cuda")
    def update(self, out):
        self.sum += out.mean(0)

metric = Metric()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    metric.update(out.detach())
""",
    ),
    "a retained graph": Pair(
        "history",
        """
history = {}
for i in range(16):
    loss = model(data()).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history[i] = loss  # here
""",
        """
history = {}
for i in range(16):
    loss = model(data()).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history["last"] = loss
""",
    ),
    "a hidden state that is not detached": Pair(
        "state",
        """
cell = nn.Linear(256 + 64, 64).cuda()
state = torch.zeros(32, 64, device="cuda")
for i in range(16):
    state = torch.tanh(cell(torch.cat([data(), state], 1)))  # here
    optimizer.zero_grad()
    state.square().mean().backward(retain_graph=True)
    optimizer.step()
""",
        """
cell = nn.Linear(256 + 64, 64).cuda()
state = torch.zeros(32, 64, device="cuda")
for i in range(16):
    state = torch.tanh(cell(torch.cat([data(), state.detach()], 1)))
    optimizer.zero_grad()
    state.square().mean().backward(retain_graph=True)
    optimizer.step()
""",
    ),
    "optimizers made anew": Pair(
        "self.old",
        """
class Loop:
    def __init__(self):
        self.old = []
    def step(self):
        train(model(data()).square().mean())
        fresh = torch.optim.Adam(model.parameters())
        fresh.step()
        self.old.append(fresh)  # here

loop = Loop()
for i in range(16):
    loop.step()
""",
        """
class Loop:
    def step(self):
        train(model(data()).square().mean())
        self.fresh = torch.optim.Adam(model.parameters())
        self.fresh.step()

loop = Loop()
for i in range(16):
    loop.step()
""",
    ),
    "a cache in a module": Pair(
        "net.cache",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = model
        self.cache = {}
    def forward(self, x, key):
        self.cache[key] = x  # here
        return self.body(x)

net = Net()
for i in range(16):
    train(net(data(), i).square().mean())
""",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = model
        self.cache = {}
    def forward(self, x, key):
        self.cache[key % 2] = x
        return self.body(x)

net = Net()
for i in range(16):
    train(net(data(), i).square().mean())
""",
    ),
    "errors that hold frames": Pair(
        "errors",
        """
errors = []

def check(x):
    wide = model[0](x)
    if wide.shape[0] == 32:
        raise ValueError("odd batch")

for i in range(16):
    x = data()
    try:
        check(x)
    except ValueError as e:
        errors.append(e)  # here
    train(model(x).square().mean())
""",
        """
errors = []

def check(x):
    wide = model[0](x)
    if wide.shape[0] == 32:
        raise ValueError("odd batch")

for i in range(16):
    x = data()
    try:
        check(x)
    except ValueError as e:
        errors.append(str(e))
    train(model(x).square().mean())
""",
    ),
    "a key-value cache that grows": Pair(
        "cache",
        """
cache = torch.zeros(0, 64, device="cuda")
for i in range(16):
    out = model(data())
    train(out.square().mean())
    cache = torch.cat([cache, out.detach()])  # here
""",
        """
cache = torch.zeros(0, 64, device="cuda")
for i in range(16):
    out = model(data())
    train(out.square().mean())
    cache = torch.cat([cache, out.detach()])[-32:].clone()
""",
    ),
    "a queue without a limit": Pair(
        "queue",
        """
from collections import deque
queue = deque()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    queue.append(out.detach())  # here
""",
        """
from collections import deque
queue = deque(maxlen=2)
for i in range(16):
    out = model(data())
    train(out.square().mean())
    queue.append(out.detach())
""",
    ),
    "a logger": Pair(
        "log.scalars",
        """
from types import SimpleNamespace
log = SimpleNamespace(scalars={"loss": [], "accuracy": []})
for i in range(16):
    out = model(data())
    loss = out.square().mean()
    train(loss)
    log.scalars["loss"].append(loss)  # here
""",
        """
from types import SimpleNamespace
log = SimpleNamespace(scalars={"loss": [], "accuracy": []})
for i in range(16):
    out = model(data())
    loss = out.square().mean()
    train(loss)
    log.scalars["loss"].append(loss.item())
""",
    ),
    "gradients of gradients": Pair(
        "penalties",
        """
penalties = []
for i in range(16):
    x = data().requires_grad_()
    grad, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = grad.square().mean()
    train(penalty)
    penalties.append(penalty)  # here
""",
        """
penalties = []
for i in range(16):
    x = data().requires_grad_()
    grad, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = grad.square().mean()
    train(penalty)
    penalties.append(penalty.tolist())
""",
    ),
    "a copy of the weights per step": Pair(
        "averages",
        """
import copy
averages = []
for i in range(16):
    train(model(data()).square().mean())
    averages.append(copy.deepcopy(model.state_dict()))  # here
""",
        """
import copy
average = None
for i in range(16):
    train(model(data()).square().mean())
    average = copy.deepcopy(model.state_dict())
""",
    ),
    "a replay buffer": Pair(
        "buffer.items",
        """
class Buffer:
    def __init__(self):
        self.items = []
    def add(self, *item):
        self.items += [item]  # here

buffer = Buffer()
for i in range(16):
    x = data()
    train(model(x).square().mean())
    buffer.add(x, i)
""",
        """
class Buffer:
    def __init__(self):
        self.items = [None]
    def add(self, *item):
        self.items[0] = item

buffer = Buffer()
for i in range(16):
    x = data()
    train(model(x).square().mean())
    buffer.add(x, i)
""",
    ),
    "memory of a contrastive loss": Pair(
        "negatives",
        """
negatives = torch.randn(64, 64, device="cuda")
for i in range(16):
    out = model(data())
    loss = (out @ negatives.T).logsumexp(1).mean()
    train(loss)
    negatives = torch.vstack((negatives, out.detach()))  # here
""",
        """
negatives = torch.randn(64, 64, device="cuda")
for i in range(16):
    out = model(data())
    loss = (out @ negatives.T).logsumexp(1).mean()
    train(loss)
    negatives = torch.vstack((negatives[32:], out.detach()))
""",
    ),
    "a global through a function": Pair(
        "_SEEN",
        """
_SEEN = []

def remember(x):
    global _SEEN
    _SEEN = _SEEN + [x]  # here

for i in range(16):
    x = data()
    train(model(x).square().mean())
    remember(x)
""",
        """
_SEEN = []

def remember(x):
    global _SEEN
    _SEEN = [x]

for i in range(16):
    x = data()
    train(model(x).square().mean())
    remember(x)
""",
    ),
    "an evaluation with gradients": Pair(
        "average",
        """
average = torch.zeros((), device="cuda")
for i in range(16):
    train(model(data()).square().mean())
    average = 0.9 * average + 0.1 * model(data()).square().mean()  # here
""",
        """
average = torch.zeros((), device="cuda")
for i in range(16):
    train(model(data()).square().mean())
    with torch.no_grad():
        average = 0.9 * average + 0.1 * model(data()).square().mean()
""",
    ),
}
