import copy

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(16))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
best, least = None, float("inf")
for _epoch in range(4):
    for _ in range(2):
        loss = model(torch.randn(4096, 2048, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if loss.item() < least:
        least = loss.item()
        best = copy.deepcopy(model.state_dict())
model.load_state_dict(best)
