"""GPT-2 in a loop of one's own, a linear schedule with warm-up, gradients clipped."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

model = GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=96, n_head=4, vocab_size=2000, n_positions=128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
schedule = get_linear_schedule_with_warmup(optimizer, 1, 3)
for _ in range(3):
    ids = torch.randint(2000, (4, 128)).cuda()
    loss = model(ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
