"""A DataLoader with workers, a collate function that pads, gradient accumulation."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.arange(1, 5 + i % 13)


def collate(batch):
    return pad_sequence(batch, batch_first=True)


if __name__ == "__main__":
    loader = DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=collate, persistent_workers=True)
    model = nn.Sequential(nn.Embedding(100, 64, padding_idx=0), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 100)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for i, ids in enumerate(loader):
        ids = ids.cuda()
        out = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(out.transpose(1, 2), ids[:, 1:], ignore_index=0)
        (loss / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
