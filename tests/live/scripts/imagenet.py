"""A loop as PyTorch's ImageNet example has it, of a ResNet of our own: knows of no budget."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            *(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)),
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.body(x) + x)


stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(2))
head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000))
model = nn.Sequential(stem, *(Block(64) for _ in range(8)), head).cuda()
criterion = nn.CrossEntropyLoss().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
pictures = torch.utils.data.TensorDataset(torch.zeros(6 * 128, 3, 224, 224), torch.zeros(6 * 128, dtype=torch.long))
loader = torch.utils.data.DataLoader(pictures, batch_size=128, shuffle=True, pin_memory=True)

model.train()
for images, target in loader:
    images, target = images.cuda(non_blocking=True), target.cuda(non_blocking=True)
    loss = criterion(model(images), target)
    losses = loss.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
scheduler.step()
