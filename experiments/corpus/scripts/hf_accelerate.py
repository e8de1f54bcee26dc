"""Accelerate: prepared objects, accumulated gradients, a clipped norm, a gathered metric."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
data = TensorDataset(torch.randint(200, (64, 32)), torch.randint(2, (64,)))
config = DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=128)
model = DistilBertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8, shuffle=True))
for ids, labels in loader:
    with accelerator.accumulate(model):
        loss = model(input_ids=ids, labels=labels).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.gather_for_metrics(loss.detach())
