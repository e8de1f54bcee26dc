"""Fine-tuning with an evaluation by generation between steps."""

import torch
from transformers import GemmaConfig, GemmaForCausalLM

config = GemmaConfig(
    vocab_size=400,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
)
model = GemmaForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    ids = torch.randint(3, 400, (4, 32), device="cuda")
    model.train()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        model.generate(ids[:, :8], max_new_tokens=8, do_sample=False)
