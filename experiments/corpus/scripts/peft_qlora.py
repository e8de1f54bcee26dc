"""QLoRA: weights in four bits of bitsandbytes, adapters in bfloat16, a paged optimizer in eight bits."""

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        kind = {"bias": False, "compute_dtype": torch.bfloat16, "quant_type": "nf4"}
        self.up = bitsandbytes.nn.Linear4bit(256, 1024, **kind)
        self.down = bitsandbytes.nn.Linear4bit(1024, 256, **kind)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(x)))


model = nn.Sequential(*(Block() for _ in range(3))).cuda()
model = get_peft_model(model, LoraConfig(r=8, target_modules=["up", "down"]))
optimizer = bitsandbytes.optim.PagedAdamW8bit([p for p in model.parameters() if p.requires_grad])
for _ in range(3):
    model(torch.randn(64, 256, device="cuda", dtype=torch.bfloat16)).float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
