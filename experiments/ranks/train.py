"""Train a Llama for three steps by FSDP2: weights on the meta device, each layer cut into shards, bf16, AdamW.

With --tensor N, layers are cut over N ranks by tensor parallelism first, and over the others by FSDP2.
"""

import argparse
import os

import torch
import torch.distributed as dist
from models import MODELS
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = 3
#: Of a layer, what is cut by its rows, and what by its columns.
BY_ROWS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
BY_COLUMNS = ("self_attn.o_proj", "mlp.down_proj")


def cut(llama: LlamaForCausalLM, mesh: DeviceMesh) -> None:
    """Tensor parallelism: of every layer, of the embedding and of the head."""
    plan = {name: ColwiseParallel() for name in BY_ROWS} | {name: RowwiseParallel() for name in BY_COLUMNS}
    for layer in llama.model.layers:
        parallelize_module(layer, mesh, plan)
    ends = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(llama, mesh, ends)


def main() -> None:
    """Of the process of one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--tensor", type=int, default=1, metavar="N", help="ranks that share a layer's matrices")
    args = parser.parse_args()
    model = MODELS[args.model]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    sizes = (dist.get_world_size() // args.tensor, *((args.tensor,) if args.tensor > 1 else ()))
    mesh = init_device_mesh("cuda", sizes, mesh_dim_names=("dp", "tp")[: len(sizes)])
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**model.config, use_cache=False))
    if model.checkpointed:
        llama.gradient_checkpointing_enable()
    if args.tensor > 1:
        cut(llama, mesh["tp"])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*llama.model.layers, llama):
        fully_shard(part, mesh=mesh["dp"], mp_policy=policy)
    llama.to_empty(device="cuda")
    # Of what tensor parallelism leaves whole the mesh is another one, and PyTorch joins (foreach, clips) those of one.
    optimizer = torch.optim.AdamW(llama.parameters(), lr=1e-4, foreach=None if args.tensor == 1 else False)
    for _ in range(STEPS):
        tokens = torch.randint(0, model.config["vocab_size"], (model.batch, model.length), device="cuda")
        llama(input_ids=tokens, labels=tokens).loss.backward()
        if args.tensor == 1:
            torch.nn.utils.clip_grad_norm_(llama.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


main()
