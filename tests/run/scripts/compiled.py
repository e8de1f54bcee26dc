"""A training script that compiles: compiled.py HOW; after each step it prints the peaks that PyTorch tells."""

import sys

import torch
from torch import nn

how = sys.argv[1]
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(4096, 256, device="cuda")
run = model
if how == "inductor":
    run = torch.compile(model, fullgraph=True)
elif how in ("aot_eager", "eager"):
    run = torch.compile(model, backend=how)
elif how in ("reduce-overhead", "max-autotune"):
    run = torch.compile(model, mode=how)
elif how == "method":
    model.compile(backend="aot_eager")


def step():
    loss = run(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


if how == "step":
    step = torch.compile(step, backend="aot_eager")
elif how == "optimizer":
    optimizer.step = torch.compile(optimizer.step, backend="aot_eager")

for _ in range(4):
    torch.cuda.reset_peak_memory_stats()
    step()
    print("peaks", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
