"""Loops that wait for what only a card computes, and loops that only look as if they did."""

import itertools

import torch

x = torch.rand(4, 6, device="cuda")
rounds = {}


def ended(name, n):
    rounds[name] = n


done, n = torch.zeros(4, dtype=torch.bool, device="cuda"), 0
while not done.all():
    done |= x[:, 0] > 0.5
    n += 1
ended("while not all", n)

n = 0
while True:
    n += 1
    if (x > 0.5).all():
        break
ended("while True", n)

n, running = 0, True
while running:
    n += 1
    running = not (x > 0.5).all().item()
ended("by a name", n)

n = 0
for _ in itertools.count():
    n += 1
    if bool((x > 0.5).all()):
        break
ended("count", n)

n = 0
while (x > 0.5).any():
    n += 1
ended("while any", n)


def finished():
    return bool((x > 0.5).all())


n = 0
while not finished() and n < 2000:
    n += 1
ended("ends by itself", n)

n = 0
for _ in range(1500):
    n += 1
    if (x > 0.5).all() or (x > 0.5).any():
        break
ended("for", n)

assert rounds == {
    "while not all": 501,
    "while True": 501,
    "by a name": 501,
    "count": 501,
    "while any": 500,
    "ends by itself": 2000,
    "for": 1500,
}, rounds

# what would raise, or fail, does not; a guard lets some through
assert torch.isfinite(x).all()
if torch.isnan(x).any() or not torch.isfinite(x.sum()):
    raise ValueError
if not torch.isfinite(x).all():
    raise ValueError
guarded = False
if (x > 0.5).any():
    guarded = True
assert guarded

# a training loop that reads its loss, and may end by it, for longer than any loop that waits
weight = torch.nn.Parameter(torch.zeros(2, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)
steps = 0
while steps < 700:
    loss = weight.sum()
    if loss.item() < -1 or (loss > 5).item():
        break
    optimizer.step()
    steps += 1
assert steps == 700
# and an evaluation
n = 0
while n < 700:
    n += int(weight.sum().item()) + 1
assert n == 700

# data that nobody has computed are finite, in any expression
skipped = []
for i in range(3):
    loss = weight.sum()
    checks = {
        "not finite": not torch.isfinite(loss),
        "by a name": not bool(torch.isfinite(loss).all()) or not torch.isfinite(x).all().item(),
        "nan": loss.isnan().item() or bool(torch.isnan(x).any() | torch.isinf(loss)),
        "itself": bool(loss != loss) or bool(loss == float("inf")) or bool(loss.abs() >= float("inf")),
        "counted": int((~torch.isfinite(x)).sum()) > 0 or int(torch.isfinite(x).sum()) != x.numel(),
        "on the host": not torch.isfinite(loss).cpu().numpy() or not torch.isfinite(x).tolist()[0],
    }
    skipped += [name for name, skip in checks.items() if skip]
    if not torch.isfinite(loss):
        continue
    skipped.append(i)
assert skipped == [0, 1, 2], skipped
waited = 0
while torch.isfinite(loss):
    waited += 1
assert waited == 500, waited
