"""A Llama with Liger's kernels: norms, rotary embedding, the loss fused with the last layer."""

import torch
from liger_kernel.transformers import apply_liger_kernel_to_llama
from transformers import LlamaConfig, LlamaForCausalLM

apply_liger_kernel_to_llama()
config = LlamaConfig(
    vocab_size=2000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    ids = torch.randint(2000, (2, 64), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
