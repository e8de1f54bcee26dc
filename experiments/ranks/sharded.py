"""Train a Llama for three steps by FSDP1 or FSDP2 as they are by default, or with one choice made otherwise."""

import argparse
import functools
import itertools
import os

import torch
import torch.distributed as dist
from models import MODELS
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

STEPS = 3


def by_fsdp1(llama: LlamaForCausalLM, args: argparse.Namespace) -> torch.nn.Module:
    """A module around it."""
    prefetch = {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST, "none": None}
    return FullyShardedDataParallel(
        llama,
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}),
        mixed_precision=MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16),
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if args.keep else ShardingStrategy.FULL_SHARD,
        device_id=torch.cuda.current_device(),
        use_orig_params=True,
        limit_all_gathers=not args.no_limit,
        forward_prefetch=args.forward_prefetch,
        backward_prefetch=prefetch[args.backward_prefetch],
        param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False),
    )


def by_fsdp2(llama: LlamaForCausalLM, args: argparse.Namespace) -> torch.nn.Module:
    """Its layers and itself, in place."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*llama.model.layers, llama):
        fully_shard(part, mp_policy=policy, reshard_after_forward=False if args.keep else None)
    layers = list(llama.model.layers)
    if args.forward_prefetch:
        for layer, after in itertools.pairwise(layers):
            layer.set_modules_to_forward_prefetch([after])
    if args.async_op:
        for part in (*layers, llama):
            part._set_unshard_async_op(True)
    return llama.to_empty(device="cuda")


def main() -> None:
    """Of the process of one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("fsdp", type=int, choices=(1, 2))
    parser.add_argument("--keep", action="store_true", help="layers stay gathered from the forward pass on")
    parser.add_argument("--forward-prefetch", action="store_true")
    parser.add_argument("--backward-prefetch", choices=("pre", "post", "none"), default="pre", help="of FSDP1")
    parser.add_argument("--no-limit", action="store_true", help="limit_all_gathers=False, of FSDP1")
    parser.add_argument("--async-op", action="store_true", help="_set_unshard_async_op(True), of FSDP2")
    args = parser.parse_args()
    model = MODELS[args.model]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**model.config, use_cache=False))
    sharded = (by_fsdp1 if args.fsdp == 1 else by_fsdp2)(llama, args)
    optimizer = torch.optim.AdamW(sharded.parameters(), lr=1e-4)
    for _ in range(STEPS):
        tokens = torch.randint(0, model.config["vocab_size"], (model.batch, model.length), device="cuda")
        sharded(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


main()
