"""Qwen on packed sequences, whose positions begin anew, in bfloat16 with a master copy in the optimizer."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

config = Qwen2Config(
    vocab_size=800,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
model = Qwen2ForCausalLM(config).to("cuda", torch.bfloat16)
masters = [p.detach().float() for p in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-5)
for _ in range(3):
    ids = torch.randint(800, (1, 128), device="cuda")
    places = torch.cat([torch.arange(n) for n in (40, 50, 38)])[None].cuda()
    model(input_ids=ids, position_ids=places, labels=ids, use_cache=False).loss.backward()
    for master, p in zip(masters, model.parameters(), strict=True):
        master.grad, p.grad = p.grad.float(), None
    optimizer.step()
    for master, p in zip(masters, model.parameters(), strict=True):
        p.data.copy_(master)
    optimizer.zero_grad()
