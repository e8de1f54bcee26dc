"""A fine-tune as Hugging Face's documentation writes it: BERT, bfloat16, Trainer, data from worker processes."""

import sys
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Reviews(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        random = torch.Generator().manual_seed(i)
        ids = torch.randint(0, 30000, (128,), generator=random)
        mask = (torch.arange(128) < 128 - i % 3).long()  # padding, so that no value decides which attention is taken
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(i % 2)}


if __name__ == "__main__":
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=3))
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch,
            max_steps=6,
            bf16=True,
            report_to=[],
            save_strategy="no",
            dataloader_num_workers=2,
            logging_steps=2,
        )
        Trainer(model, arguments, train_dataset=Reviews()).train()
