"""Averaged weights: an exponential average and stochastic weight averaging, with updated statistics."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(256, 3, 16, 16), torch.randint(10, (256,)))
loader = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
).cuda()
average, swa = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99)), AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
schedule = SWALR(optimizer, swa_lr=0.05)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        average.update_parameters(model)
    swa.update_parameters(model)
    schedule.step()
update_bn(((x.cuda(),) for x, _ in loader), swa)
