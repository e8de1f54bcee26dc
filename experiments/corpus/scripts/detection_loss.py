"""Hard-negative mining: the largest losses are sorted and kept, by counts that are known."""

import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 6 * 5, 3, 2, 1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
for _ in range(3):
    out = net(torch.randn(4, 3, 64, 64, device="cuda")).view(4, 6, 5, -1).permute(0, 3, 1, 2).reshape(4, -1, 5)
    boxes, scores = out[..., :4], out[..., 4]
    each = nn.functional.binary_cross_entropy_with_logits(scores, torch.zeros_like(scores), reduction="none")
    hardest = each.sort(dim=1, descending=True).values[:, :128]
    shift = nn.functional.smooth_l1_loss(boxes[:, :32], torch.zeros_like(boxes[:, :32]))
    optimizer.zero_grad()
    (hardest.mean() + shift).backward()
    optimizer.step()
