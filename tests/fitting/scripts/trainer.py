"""Hugging Face's Trainer, its batch in TrainingArguments; the layers are wide, so that the optimizer's state counts."""

import sys
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments


class Sentences(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, i):
        ids = torch.arange(128) + i
        return {"input_ids": ids, "labels": torch.tensor(i % 2)}


if __name__ == "__main__":
    config = BertConfig(vocab_size=300, num_hidden_layers=4, hidden_size=512, num_attention_heads=8)
    model = BertForSequenceClassification(config)
    if len(sys.argv) > 1:
        (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    else:
        arguments = TrainingArguments(
            TemporaryDirectory().name,
            per_device_train_batch_size=32,
            max_steps=3,
            report_to=[],
            save_strategy="no",
        )
    Trainer(model, arguments, train_dataset=Sentences()).train()
