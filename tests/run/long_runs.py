"""Scripts that run for long: their steps differ in length, they evaluate, empty the cache, or keep something."""

_HEAD = """
import random, sys, torch
from torch import nn

source = random.Random(7)


class Net(nn.Module):
    def __init__(self, layers, width, words):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        out = self.embedding(tokens)
        for block in self.blocks:
            out = block(out)
        return self.head(out)


def batch(length, n=8):
    return torch.zeros(n, length, dtype=torch.long).cuda()


def train(length):
    loss = nn.functional.cross_entropy(net(batch(length)).flatten(0, 1), batch(length).flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

#: Lengths of 16 to 256 tokens in multiples of 8; the cache is emptied every ten steps.
VARYING = (
    _HEAD
    + """
net = Net(4, 256, 8000).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for i in range(1, 5001):
    train(8 * source.randrange(2, 33))
    if i % 10 == 0:
        torch.cuda.empty_cache()
"""
)

#: The same of a smaller model, which is evaluated every 25 steps; the score is kept until the next.
EVALUATES = (
    _HEAD
    + """
net = Net(1, 128, 4000).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for i in range(1, 1001):
    train(8 * source.randrange(2, 33))
    if i % 25 == 0:
        net.eval()
        with torch.no_grad():
            score = sum(net(batch(n, 16)).argmax(-1).sum() for n in (320, 40, 200))
        net.train()
    if i % 10 == 0:
        torch.cuda.empty_cache()
"""
)

#: Outputs kept in a list, and a tensor that is replaced by a longer one at each step.
LEAKS = (
    _HEAD
    + """
net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
outputs, cache = [], torch.zeros(1, 1024, device="cuda")
for i in range(4000):
    out = net(torch.zeros(64, 256, device="cuda"))
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    outputs.append(out.detach())
    cache = torch.cat([cache, torch.zeros(1, 1024, device="cuda")])
"""
)

#: Pages of the lengths in a file, eight of each at a time from a DataLoader; what a step has made is gone at its end.
PAGES = (
    _HEAD
    + """
class Pages(torch.utils.data.Dataset):
    def __init__(self):
        self.lengths = [int(line) for line in open(sys.argv[1])]

    def __len__(self):
        return 8 * len(self.lengths)

    def __getitem__(self, i):
        return torch.zeros(self.lengths[i // 8], dtype=torch.long)


net = Net(4, 256, 1000).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for tokens in torch.utils.data.DataLoader(Pages(), batch_size=8):
    tokens = tokens.cuda()
    nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)


def lengths(count: int) -> str:
    """The lengths of the steps of VARYING and EVALUATES, as `--lengths` reads them."""
    import random

    source = random.Random(7)
    return "".join(f"{8 * source.randrange(2, 33)}\n" for _ in range(count))
