"""BERT-Large (335 million parameters), compiled: masked words of 16 texts of 512 tokens, AdamW."""

import torch
from transformers import BertConfig, BertForMaskedLM

large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
model = torch.compile(BertForMaskedLM(BertConfig(**large)).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, 30522, (16, 512), device="cuda")
    mask = torch.ones_like(ids)
    model(input_ids=ids, attention_mask=mask, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
