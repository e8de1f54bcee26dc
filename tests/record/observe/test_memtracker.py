"""The peak of live storages against torch's own memory tracker, on the CPU, where kernels are real."""

PROGRAM = """
import gc
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn import functional as F
from coopsim.record.observe import costs, device, effects, recorder
from coopsim.cards import profiles

def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
effects.tensors = recorder.tensors = tensors  # the recorder looks at the GPU's only

class BiLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(20, 32, 2, bidirectional=True), nn.Linear(64, 5)
    def forward(self, x): return self.head(self.lstm(x)[0][-1])

class Tied(nn.Module):  # in-place ops, and one weight for both ends
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.out = nn.Embedding(50, 24), nn.Linear(24, 24), nn.Linear(24, 50, bias=False)
        self.out.weight = self.embed.weight
    def forward(self, x):
        h = self.embed(x)
        h = (2 * F.relu_(self.mix(h))).add_(h)
        return self.out(h).flatten(0, 1)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), nn.Linear(32, 5)
    def forward(self, x): return self.head(self.body(x).mean(1))

def convolutions():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
                         nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))
def mlp(): return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 5))

CASES = {
    "mlp": (mlp, torch.ones(128, 64), torch.optim.SGD),
    "convolutions": (convolutions, torch.ones(16, 3, 32, 32), torch.optim.AdamW),
    "bilstm": (BiLSTM, torch.ones(30, 16, 20), torch.optim.Adam),
    "tied": (Tied, torch.zeros(16, 10, dtype=torch.long), torch.optim.SGD),
    "attention": (Attention, torch.ones(8, 20, 32), torch.optim.AdamW),
}
found = {}
for name, (make, x, kind) in CASES.items():
    model = make()
    y = torch.zeros(len(model(x)), dtype=torch.long)
    optimizer = kind(model.parameters(), lr=0.1)
    def step():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    step()
    state = [t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    tracker = MemTracker()
    tracker.track_external(model, optimizer, x, y)
    with tracker:
        step()
    theirs = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    card = profiles.get("a100-80gb")
    own = recorder.Recorder(device.PhantomDevice(card), costs.OpCostModel(card, "tf32"))
    for tensor in (*model.parameters(), *model.buffers(), *state, x, y):
        own.ledger.of(tensor)
    gc.collect()
    with own:
        own.start()
        step()
        own.stop()
    found[name] = [theirs, own.ledger.peak_bytes]
answer(found)
"""


def test_peak_is_the_memory_trackers_to_the_byte(on_phantom) -> None:
    found = on_phantom(PROGRAM)
    assert list(found) == ["mlp", "convolutions", "bilstm", "tied", "attention"]
    assert [ours for _, ours in found.values()] == [theirs for theirs, _ in found.values()]
    assert min(ours for _, ours in found.values()) > 100_000
