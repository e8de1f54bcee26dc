"""Masked language modelling: RoBERTa, masks drawn on the host, layers recomputed."""

import torch
from transformers import RobertaConfig, RobertaForMaskedLM

config = RobertaConfig(
    vocab_size=500, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128
)
model = RobertaForMaskedLM(config).cuda()
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    ids = torch.randint(5, 500, (8, 64))
    labels, hidden = ids.clone(), torch.rand(ids.shape) < 0.15
    labels[~hidden] = -100
    ids[hidden] = 4
    model(input_ids=ids.cuda(), labels=labels.cuda(), attention_mask=torch.ones_like(ids).cuda()).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
