"""Trainer on a causal model: bf16, accumulated gradients, recomputed layers, options on the command line."""

import sys
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import Dataset
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Text(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = (torch.arange(64) * (i + 1)) % 1000
        return {"input_ids": ids, "labels": ids}


if __name__ == "__main__":
    sys.argv += ["--output_dir", TemporaryDirectory().name, "--max_steps", "2", "--bf16", "--report_to", "none"]
    sys.argv += ["--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "2", "--save_strategy", "no"]
    sys.argv += ["--gradient_checkpointing"]
    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    config = LlamaConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4
    )
    Trainer(LlamaForCausalLM(config), arguments, train_dataset=Text()).train()
