"""GPT-2 on texts of many lengths, of which few are long: 4 texts per step, the longest decides."""

import random

import torch
from transformers import GPT2Config, GPT2LMHeadModel

source = random.Random(0)
model = GPT2LMHeadModel(GPT2Config()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    length = min(8 * (1 + int(source.lognormvariate(2.7, 0.7))), 1024)
    tokens = torch.zeros(4, length, dtype=torch.long).cuda()
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
