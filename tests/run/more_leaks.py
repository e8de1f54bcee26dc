"""More pairs of scripts: leaks that are harder to see than those of leaks.py, and scripts much like them."""

from tests.run.leaks import Pair

PAIRS = {
    "a run's history": Pair(
        "run._history",
        """
class Run:
    def __init__(self):
        self._history = {}
    def log(self, values, step):
        self._history[step] = dict(values)  # here

run = Run()
for i in range(16):
    out = model(data())
    loss = out.square().mean()
    train(loss)
    run.log({"train": {"loss": loss, "logits": out}}, step=i)
""",
        """
class Run:
    def __init__(self):
        self._history = {}
    def log(self, values, step):
        self._history[step] = {key: float(value) for key, value in values.items()}

run = Run()
for i in range(16):
    out = model(data())
    loss = out.square().mean()
    train(loss)
    run.log({"loss": loss, "logits": out.mean()}, step=i)
""",
    ),
    "a moving average of outputs": Pair(
        "average.average",
        """
class Average:
    def __init__(self):
        self.average = None
    def update(self, out):
        old = out if self.average is None else self.average
        self.average = 0.99 * old + 0.01 * out  # here

average = Average()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    average.update(out)
""",
        """
class Average:
    def __init__(self):
        self.average = None
    def update(self, out):
        old = out if self.average is None else self.average
        self.average = (0.99 * old + 0.01 * out).detach()

average = Average()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    average.update(out)
""",
    ),
    "a cache of a function": Pair(
        "table",
        """
from functools import lru_cache

@lru_cache(maxsize=None)
def table(n):  # here
    return torch.ones(4096, device="cuda") * n

for i in range(16):
    train(model(data()).square().mean() + table(i).mean())
""",
        """
from functools import lru_cache

@lru_cache(maxsize=2)
def table(n):
    return torch.ones(4096, device="cuda") * n

for i in range(16):
    train(model(data()).square().mean() + table(i).mean())
""",
    ),
    "a generator that remembers": Pair(
        "seen",
        """
def batches():
    seen = []
    while True:
        x = data()
        seen.append(x)  # here
        yield x

source = batches()
for i in range(16):
    train(model(next(source)).square().mean())
""",
        """
from collections import deque

def batches():
    seen = deque(maxlen=2)
    while True:
        x = data()
        seen.append(x)
        yield x

source = batches()
for i in range(16):
    train(model(next(source)).square().mean())
""",
    ),
    "an iterator that repeats": Pair(
        "source",
        """
import itertools

source = itertools.cycle(data() for _ in range(100))  # here
for i in range(16):
    train(model(next(source)).square().mean())
""",
        """
import itertools

source = itertools.cycle([data(), data()])
for i in range(16):
    train(model(next(source)).square().mean())
""",
    ),
    "parameters that are added": Pair(
        "optimizer.state",
        """
for i in range(16):
    extra = nn.Parameter(torch.zeros(64, device="cuda"))
    optimizer.add_param_group({"params": [extra]})  # here
    train((model(data()) + extra).square().mean())
""",
        """
for i in range(16):
    extra = nn.Parameter(torch.zeros(64, device="cuda"))
    optimizer.param_groups[0]["params"][-1:] = [model[2].bias]
    train((model(data()) + extra).square().mean())
""",
    ),
    "lists by name": Pair(
        "meters",
        """
from collections import defaultdict
meters = defaultdict(list)
for i in range(16):
    out = model(data())
    train(out.square().mean())
    for name, value in (("norm", out.norm(dim=1)), ("mean", out.mean())):
        meters[name].append(value)  # here
""",
        """
from collections import defaultdict
meters = defaultdict(list)
for i in range(16):
    out = model(data())
    train(out.square().mean())
    for name, value in (("norm", out.norm()), ("mean", out.mean())):
        meters[name].append(value.item())
""",
    ),
    "records with slots": Pair(
        "records",
        """
@dataclass(slots=True)
class Record:
    step: int
    out: torch.Tensor

records = []
for i in range(16):
    out = model(data())
    train(out.square().mean())
    records.append(Record(i, out.detach()))  # here
""".replace("@dataclass", "from dataclasses import dataclass\n\n@dataclass"),
        """
@dataclass(slots=True)
class Record:
    step: int
    out: torch.Tensor

records = [None]
for i in range(16):
    out = model(data())
    train(out.square().mean())
    records[0] = Record(i, out.detach())
""".replace("@dataclass", "from dataclasses import dataclass\n\n@dataclass"),
    ),
    "a list of the class": Pair(
        "Tracker.values",
        """
class Tracker:
    values = []
    def add(self, value):
        self.values.append(value)  # here

for i in range(16):
    out = model(data())
    train(out.square().mean())
    Tracker().add(out.detach())
""",
        """
class Tracker:
    values = []
    def add(self, value):
        self.values[:] = [value]

for i in range(16):
    out = model(data())
    train(out.square().mean())
    Tracker().add(out.detach())
""",
    ),
    "a default argument": Pair(
        "store",
        """
def hook(module, gradients, outputs, store=[]):
    store.append(outputs[0])  # here

model[2].register_full_backward_hook(hook)
for i in range(16):
    train(model(data()).square().mean())
""",
        """
def hook(module, gradients, outputs, store=[]):
    store[:] = [outputs[0]]

model[2].register_full_backward_hook(hook)
for i in range(16):
    train(model(data()).square().mean())
""",
    ),
    "inputs that get longer": Pair(
        "inputs",
        """
inputs = []
for i in range(16):
    x = torch.randn(8 * (i + 1), 256, device="cuda")
    out = model(x)
    train(out.square().mean())
    inputs.append(x)  # here
""",
        """
for i in range(16):
    x = torch.randn(8 * (i + 1), 256, device="cuda")
    out = model(x)
    train(out.square().mean())
""",
    ),
    "a queue of another thread": Pair(
        "todo.queue",
        """
import queue, threading
todo = queue.Queue()

def write():
    while todo.get() is not None:
        threading.Event().wait(60)

threading.Thread(target=write, daemon=True).start()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    todo.put(out.detach())  # here
""",
        """
import queue, threading
todo = queue.Queue()

def write():
    while todo.get() is not None:
        pass

threading.Thread(target=write, daemon=True).start()
for i in range(16):
    out = model(data())
    train(out.square().mean())
    todo.put(out.detach())
    del out
    while not todo.empty():
        pass
""",
    ),
    "a leak among inputs of many lengths": Pair(
        "kept",
        """
import random
source, kept = random.Random(7), []
for i in range(60):
    out = model(torch.randn(8 * source.randrange(1, 65), 256, device="cuda"))
    train(out.square().mean())
    kept.append(out[:32].detach().clone())  # here
""",
        """
import random
source, kept = random.Random(7), []
for i in range(60):
    out = model(torch.randn(8 * source.randrange(1, 65), 256, device="cuda"))
    train(out.square().mean())
    kept = [out[:32].detach().clone()]
""",
    ),
}
