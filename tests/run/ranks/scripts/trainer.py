"""Hugging Face's Trainer, by FSDP2 (`fsdp`) or DDP (`ddp`)."""

import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = LlamaConfig(
    hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=1000,
)  # fmt: skip
model = LlamaForCausalLM(config)
tokens = torch.arange(128)
data = [{"input_ids": tokens, "labels": tokens} for _ in range(64)]
sharded = {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
options = {"fsdp": "full_shard auto_wrap", "fsdp_config": sharded} if "fsdp" in sys.argv else {}
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=2, max_steps=3, bf16=True, report_to=[], logging_steps=1,
        save_strategy="no", **options,
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=data).train()
