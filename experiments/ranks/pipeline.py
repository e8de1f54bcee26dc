"""Train a Llama for three steps by a pipeline: a stage a rank, 1F1B, 8 micro-batches, weights in bf16, AdamW."""

import argparse
import os

import torch
import torch.distributed as dist
from models import MODELS
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from transformers import LlamaConfig, LlamaForCausalLM

MICRO_BATCHES, LENGTH, STEPS = 8, 2048, 3


class Stage(nn.Module):
    """Of a Llama: its layers of `stage` of `stages`, the embedding with the first, and the head with the last."""

    def __init__(self, llama: LlamaForCausalLM, stage: int, stages: int) -> None:
        super().__init__()
        layers = llama.model.layers
        each = len(layers) // stages
        self.embedding = llama.model.embed_tokens if stage == 0 else None
        self.rotary = llama.model.rotary_emb
        self.layers = layers[stage * each : (stage + 1) * each]
        self.head = nn.Sequential(llama.model.norm, llama.lm_head) if stage == stages - 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        position = self.rotary(x, torch.arange(x.shape[1], device=x.device)[None])
        for layer in self.layers:
            x = layer(x, position_embeddings=position)
        return x if self.head is None else self.head(x)


def loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Of the next words."""
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def main() -> None:
    """Of the process of one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    config = MODELS[parser.parse_args().model].config
    rank, world, local = (int(os.environ[key]) for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    dist.init_process_group("nccl", device_id=device)
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**config, use_cache=False)).to(torch.bfloat16)
    mine = Stage(llama, rank, world).to_empty(device=device)
    schedule = Schedule1F1B(PipelineStage(mine, rank, world, device), MICRO_BATCHES, loss_fn=loss)
    optimizer = torch.optim.AdamW(mine.parameters(), lr=1e-4)
    for _ in range(STEPS):
        tokens = torch.randint(0, config["vocab_size"], (MICRO_BATCHES, LENGTH), device=device)
        if rank == 0:
            schedule.step(tokens)
        elif rank == world - 1:
            schedule.step(target=tokens)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


main()
