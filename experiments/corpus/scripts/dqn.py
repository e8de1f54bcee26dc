"""Double Q-learning: a replay buffer on the host, a target network that follows."""

import copy
import random

import torch
from torch import nn

net = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 4)).cuda()
target = copy.deepcopy(net)
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
buffer = [(torch.randn(8), random.randrange(4), random.random(), torch.randn(8), 0.0) for _ in range(500)]
for _ in range(4):
    state, action, reward, after, done = (
        torch.stack(x) if isinstance(x[0], torch.Tensor) else torch.tensor(x)
        for x in zip(*random.sample(buffer, 64), strict=True)
    )
    q = net(state.cuda()).gather(1, action.cuda()[:, None]).squeeze(1)
    with torch.no_grad():
        best = net(after.cuda()).argmax(1, keepdim=True)
        wanted = reward.cuda() + 0.99 * (1 - done.cuda()) * target(after.cuda()).gather(1, best).squeeze(1)
    optimizer.zero_grad()
    nn.functional.smooth_l1_loss(q, wanted.float()).backward()
    optimizer.step()
    for old, new in zip(target.parameters(), net.parameters(), strict=True):
        old.data.mul_(0.995).add_(new.data, alpha=0.005)
