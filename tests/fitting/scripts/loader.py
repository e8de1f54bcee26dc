"""A DataLoader and a loop over it, as anyone writes them."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.layers(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bs", type=int, default=4096)
    parser.add_argument("--few", action="store_true")
    args = parser.parse_args()
    data = TensorDataset(torch.randn(12288, 256), torch.randint(0, 10, (12288,)))
    loader = DataLoader(data, batch_size=args.bs, shuffle=True)
    model = nn.Sequential(*(Block(256) for _ in range(8)), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95))
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        if args.few:
            break


if __name__ == "__main__":
    main()
