"""Scripts that call several modules: which are the models, and what their blocks keep."""

from tests.capture.conftest import Runner

SEVERAL = """
import torch
from torch import nn
from coopsim.fit.inside.blocks import Blocks
from coopsim.fit.inside.models import Models

class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.fails = False
    def forward(self, x):
        if self.fails:
            raise RuntimeError
        blocks.op("an op", 3, 5)
        return x + self.layers(x)

def body(depth=3):
    return nn.Sequential(*[Block() for _ in range(depth)]).cuda()

models = Models()
blocks = Blocks(models)

def measured():
    # of the last model: the bytes that its blocks keep, and what their ops cost
    return [[b["kept_bytes"], *(op["ns"] for op in b["ops"])] for b in blocks.levels(len(models.models) - 1)[0]]

x = torch.randn(8, 64, device="cuda")
x @ x.T  # cuBLAS takes its workspace
firsts = {
    "embedding": (nn.Embedding(10, 64), lambda m: m(torch.zeros(8, dtype=torch.int64, device="cuda"))),
    "frozen encoder": (nn.Linear(64, 64).requires_grad_(False), lambda m: m(x)),
    "conv stem": (nn.Conv1d(1, 64, 64), lambda m: m(x[:, None]).flatten(1)),
    "GRU": (nn.GRU(64, 64), lambda m: m(x)[0]),
    "another body": (body(2), lambda m: m(x)),
}
found = {}
for name, (first, call) in firsts.items():
    first, then = first.cuda(), body()
    for _ in range(2):
        then(call(first)).sum().backward()
    found[name] = measured()

shared = Block().cuda()
for net in (nn.Sequential(shared, Block().cuda()), nn.Sequential(Block().cuda(), shared)):
    net(x).sum().backward()
found["shared"] = measured()

failing = body()
failing(x)
failing[1].fails = True
try:
    failing(x)
except RuntimeError:
    failing[1].fails = False
failing(x).sum().backward()
found["failing"] = measured()
answer(found)
"""


def test_a_module_without_blocks_is_called_before_one_with_blocks(on_phantom: Runner) -> None:
    """Each block keeps its hidden values before and after GELU, beyond its result."""
    found = on_phantom(SEVERAL)
    hidden = 2 * 8 * 4 * 64 * 4
    assert found.pop("shared") == [[hidden, 3]] * 2
    assert all(kept == [[hidden, 3]] * 3 for kept in found.values()), found
    assert len(found) == 6
