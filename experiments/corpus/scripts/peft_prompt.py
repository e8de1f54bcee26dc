"""Prompt tuning: virtual words before the input, everything else frozen."""

import torch
from peft import PromptTuningConfig, TaskType, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

base = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=500, n_positions=128))
model = get_peft_model(base, PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=10)).cuda()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.03)
for _ in range(3):
    ids = torch.randint(500, (4, 48), device="cuda")
    model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
