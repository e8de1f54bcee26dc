"""A state-space model of transformers, by its slow path."""

import torch
from transformers import MambaConfig, MambaForCausalLM

model = MambaForCausalLM(MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=2, state_size=8)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    ids = torch.randint(300, (2, 24), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
