"""Fine-tune a model of Llama-3.2-3B's shapes as peft's comparison does on MetaMathQA; weights and texts are zeros.

    coopsim phantom run --gpu l40s -- python language.py CONFIG_FOLDER RESULT.json [LENGTH …]

LENGTH: tokens of each step's batch; 0: the cache is emptied. Without: those of `lengths.py`.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lengths
import torch
import training
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import caching_allocator_warmup

#: The public configuration of Llama-3.2-3B.
SHAPES = LlamaConfig(
    hidden_size=3072,
    intermediate_size=8192,
    num_hidden_layers=28,
    num_attention_heads=24,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128256,
    tie_word_embeddings=True,
    max_position_embeddings=131072,
    rms_norm_eps=1e-5,
    rope_parameters={
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    bos_token_id=128000,
    eos_token_id=128001,
    architectures=["LlamaForCausalLM"],
    dtype="bfloat16",
)
BATCH = 4
OPTIMIZER = {"lr": 1e-4, "weight_decay": 0.1}
EVALUATED = 768  # tokens of the texts of the forward pass before training


def load(*, checkpointing: bool) -> Any:
    """As transformers puts a model on a card: one large request first, which the large weights then fill."""
    with torch.device("meta"):
        model = LlamaForCausalLM(SHAPES).to(torch.bfloat16)
    names = [name for name, _ in model.named_parameters()]
    caching_allocator_warmup(model, dict.fromkeys(names, "cuda"), None)
    model.to_empty(device="cuda").tie_weights()
    if checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
    return model.eval()


def batch(tokens: int, rows: int) -> dict[str, torch.Tensor]:
    """Of texts that are padded on the right, all but the longest."""
    ids = torch.zeros(rows, tokens, dtype=torch.int64)
    mask = torch.ones(rows, tokens, dtype=torch.int64)
    mask[1:, -max(tokens // 10, 1) :] = 0
    return {"input_ids": ids.to("cuda"), "attention_mask": mask.to("cuda")}


@torch.inference_mode()
def evaluate(model: Any) -> None:
    """The loss of the texts of one batch, without the adapter."""
    with model.disable_adapter() if hasattr(model, "disable_adapter") else nullcontext():
        texts = batch(EVALUATED, BATCH)
        logits = model(**texts).logits
        for row, target in zip(logits, texts["input_ids"], strict=True):
            cross_entropy(row[:-1], target[1:], reduction="none")


def main(folder: Path, result: Path, steps: list[int]) -> None:
    settings = training.Settings(folder, batch=BATCH, optimizer=OPTIMIZER, checkpointing=False)
    meter = training.Meter()
    model = training.adapt(load(checkpointing=settings.checkpointing), settings)
    optimizer = training.optimizer(model, settings)
    model.eval()
    evaluate(model)
    model.train()
    for step, tokens in enumerate(steps, 1):
        if not tokens:
            torch.cuda.empty_cache()
            continue
        texts = batch(tokens, settings.batch)
        labels = texts["input_ids"].clone()
        labels[:, -1] = -100
        count = texts["attention_mask"].sum().item()
        optimizer.zero_grad()
        outputs = model(**texts, labels=labels, num_items_in_batch=count)  # until then the last one's logits are alive
        outputs.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        training.allocate_ranks(model, step, len(steps))
        outputs.loss.item()
        meter.step()
    meter.write(model, result)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(n) for n in sys.argv[3:]] or lengths.sequence(lengths.LONGEST))
