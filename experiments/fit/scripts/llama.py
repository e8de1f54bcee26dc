"""A Llama sharded by FSDP2, started by torchrun."""

import sys

import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

distributed.init_process_group("nccl")
torch.cuda.set_device(distributed.get_rank() % torch.cuda.device_count())
config = LlamaConfig(
    vocab_size=16000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8
)
model = LlamaForCausalLM(config).cuda()
for layer in model.model.layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(3):
    ids = torch.randint(0, 16000, (int(sys.argv[1]), 256), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
distributed.destroy_process_group()
