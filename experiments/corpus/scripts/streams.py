"""A prefetcher on a stream of its own, with events and record_stream."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
side = torch.cuda.Stream()


def fetched():
    ahead = None
    for _ in range(5):
        with torch.cuda.stream(side):
            batch = torch.randn(256, 512).pin_memory().cuda(non_blocking=True)
        if ahead is not None:
            yield ahead
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        ahead = batch
    yield ahead


for x in fetched():
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
