"""Proximal policy optimisation on a made-up environment: rollouts, advantages, clipped updates."""

import torch
from torch import nn
from torch.distributions import Categorical

actor = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4)).cuda()
critic = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-4, eps=1e-5)
for _ in range(2):
    states = torch.randn(32, 8, 8, device="cuda")
    with torch.no_grad():
        policy = Categorical(logits=actor(states))
        actions = policy.sample()
        before, values = policy.log_prob(actions), critic(states).squeeze(-1)
    rewards, advantages, last = torch.randn(32, 8, device="cuda"), torch.zeros(32, 8, device="cuda"), 0
    for t in reversed(range(31)):
        last = rewards[t] + 0.99 * values[t + 1] - values[t] + 0.95 * 0.99 * last
        advantages[t] = last
    returns = advantages + values
    for rows in torch.randperm(256).cuda().split(64):
        policy = Categorical(logits=actor(states.flatten(0, 1)[rows]))
        ratio = (policy.log_prob(actions.flatten()[rows]) - before.flatten()[rows]).exp()
        gain = advantages.flatten()[rows]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() - 0.01 * policy.entropy().mean()
        loss = loss + 0.5 * (critic(states.flatten(0, 1)[rows]).squeeze(-1) - returns.flatten()[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
        optimizer.step()
