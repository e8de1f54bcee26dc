"""A Hugging Face Trainer script that knows of no budget: GPT-2 from its configuration, on words of its own."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Words(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        words = torch.arange(i, i + 512) % 1000
        return {"input_ids": words, "labels": words}


model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=512, n_embd=512, n_layer=8, n_head=8))
arguments = TrainingArguments(
    output_dir=sys.argv[1],
    per_device_train_batch_size=16,
    max_steps=6,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
Trainer(model=model, args=arguments, train_dataset=Words()).train()
