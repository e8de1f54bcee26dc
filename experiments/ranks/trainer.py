"""Train a Llama for three steps by Hugging Face's Trainer with FSDP2: bf16, AdamW."""

import argparse
import tempfile

import torch
from models import MODELS
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

STEPS = 3


def main() -> None:
    """Of the process of one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    model = MODELS[parser.parse_args().model]
    llama = LlamaForCausalLM(LlamaConfig(**model.config, use_cache=False))
    tokens = torch.arange(model.length) % model.config["vocab_size"]
    data = [{"input_ids": tokens, "labels": tokens}] * 1024
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=model.batch, max_steps=STEPS, bf16=True, report_to=[],
            logging_steps=1, save_strategy="no", fsdp="full_shard auto_wrap",
            fsdp_config={"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]},
        )  # fmt: skip
        Trainer(model=llama, args=arguments, train_dataset=data).train()


main()
