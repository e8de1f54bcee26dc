"""Trainer on pairs of sentences: evaluation, metrics, a collator that pads."""

from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Pairs(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        return {"input_ids": torch.arange(32) + i, "token_type_ids": torch.arange(32) // 16, "labels": i % 3}


def metrics(prediction):
    return {"accuracy": float(np.mean(np.argmax(prediction.predictions, 1) == prediction.label_ids))}


if __name__ == "__main__":
    config = BertConfig(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_labels=3)
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=8,
            max_steps=4,
            eval_strategy="steps",
            eval_steps=2,
            save_strategy="no",
            report_to=[],
            lr_scheduler_type="cosine",
        )
        trainer = Trainer(
            BertForSequenceClassification(config),
            arguments,
            train_dataset=Pairs(),
            eval_dataset=Pairs(),
            compute_metrics=metrics,
        )
        trainer.train()
