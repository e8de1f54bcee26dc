"""Preferences without a library: log-probabilities of two answers, under a policy and a frozen reference."""

import copy

import torch
from torch import nn
from torch.nn import functional

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
policy = nn.Sequential(nn.Embedding(1000, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 1000)).cuda()
reference = copy.deepcopy(policy).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)


def likelihood(model, ids):
    logits = model(ids[:, :-1])
    taken = torch.gather(logits, 2, ids[:, 1:, None]).squeeze(2)
    return (taken - logits.logsumexp(2)).sum(1)


for _ in range(3):
    both = torch.randint(1000, (8, 65), device="cuda")
    with torch.no_grad():
        chosen, rejected = likelihood(reference, both).chunk(2)
    better, worse = likelihood(policy, both).chunk(2)
    loss = -functional.logsigmoid(0.1 * ((better - chosen) - (worse - rejected))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
