"""GPT-2 (124 million parameters), compiled: 8 texts of 1024 tokens, AdamW."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = torch.compile(GPT2LMHeadModel(GPT2Config()).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
for _ in range(4):
    ids = torch.randint(0, 50257, (8, 1024), device="cuda")
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
