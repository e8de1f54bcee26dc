"""GPT-2 with AdamW in a plain loop."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config(n_layer=8, n_embd=384, n_head=6, vocab_size=16000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(3):
    ids = torch.randint(0, 16000, (int(sys.argv[1]), 256), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
