"""A training script of which most is Adam's state: losses, then the bytes of all that it saves."""

import argparse
import contextlib
import hashlib
import io

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
parser.add_argument("--own", action="store_true", help="say what a step is")
parser.add_argument("--fails", action="store_true", help="raise an error in the last step")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(128, 128) for _ in range(12))).to(args.device)
optimizer = torch.optim.Adam(model.parameters(), foreach=True)
step = contextlib.nullcontext
if args.own:
    import coopsim.live

    step = coopsim.live.Budget("1GiB").step
for _ in range(6):
    with step():
        optimizer.zero_grad()
        loss = model(torch.randn(8, 128, device=args.device)).square().mean()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.9f}")
if args.fails:
    with contextlib.suppress(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
saved = io.BytesIO()
torch.save([model.state_dict(), optimizer.state_dict()], saved)
print(hashlib.sha256(saved.getvalue()).hexdigest())
