"""Hugging Face's Trainer, as its documentation has it: BERT on sentences of 256 tokens."""

import sys
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        ids = torch.randint(0, 30000, (256,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(i % 2)}


if __name__ == "__main__":
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=6))
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=int(sys.argv[1]), max_steps=3, report_to=[], save_strategy="no"
        )
        Trainer(model, arguments, train_dataset=Sentences()).train()
