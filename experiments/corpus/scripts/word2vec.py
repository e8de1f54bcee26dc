"""Skip-grams with negative samples: sparse gradients of embeddings, SparseAdam."""

import torch
from torch import nn

words, contexts = nn.Embedding(5000, 64, sparse=True).cuda(), nn.EmbeddingBag(5000, 64, sparse=True).cuda()
optimizer = torch.optim.SparseAdam([*words.parameters(), *contexts.parameters()])
for _ in range(3):
    centre = torch.randint(5000, (256,), device="cuda")
    near, far = torch.randint(5000, (256, 4), device="cuda"), torch.randint(5000, (256, 20), device="cuda")
    x = words(centre)
    loss = -(x * contexts(near)).sum(1).sigmoid().log().mean() - (-(x * contexts(far))).sum(1).sigmoid().log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
