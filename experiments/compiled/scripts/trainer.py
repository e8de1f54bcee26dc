"""Hugging Face's Trainer with torch_compile=True."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=4096, bos_token_id=0, eos_token_id=0))
texts = [{"input_ids": tokens, "labels": tokens} for tokens in torch.randint(4096, (64, 256))]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, torch_compile=True, per_device_train_batch_size=16, num_train_epochs=1, save_strategy="no", report_to=[]
    )
    Trainer(model, arguments, train_dataset=texts).train()
