"""Train a BERT-Large for three steps by Accelerate: 16 texts of 512 words a rank; what else is the launcher's."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification

BATCH, LENGTH, STEPS = 16, 512, 3

accelerator = Accelerator()
config = BertConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)
texts = BATCH * STEPS * accelerator.num_processes
data = TensorDataset(torch.randint(0, config.vocab_size, (texts, LENGTH)), torch.randint(0, 2, (texts,)))
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=BATCH))
for words, labels in loader:
    accelerator.backward(model(input_ids=words, labels=labels).loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
accelerator.end_training()
