"""Train a Llama for three steps by FSDP2: weights on the meta device, each layer cut into shards, bf16, AdamW."""

import argparse
import os

import torch
import torch.distributed as dist
from models import MODELS
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = 3


def main() -> None:
    """Of the process of one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    model = MODELS[parser.parse_args().model]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**model.config, use_cache=False))
    if model.checkpointed:
        llama.gradient_checkpointing_enable()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*llama.model.layers, llama):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    llama.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(llama.parameters(), lr=1e-4)
    for _ in range(STEPS):
        tokens = torch.randint(0, model.config["vocab_size"], (model.batch, model.length), device="cuda")
        llama(input_ids=tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(llama.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


main()
