"""torchvision's ResNet, cuDNN's benchmark, a loader of images, a validation under no_grad."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18

torch.backends.cudnn.benchmark = True
data = TensorDataset(torch.randn(24, 3, 64, 64), torch.randint(10, (24,)))
model = resnet18(num_classes=10).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss().cuda()
for x, y in DataLoader(data, batch_size=8, shuffle=True):
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    for x, y in DataLoader(data, batch_size=12):
        print((model(x.cuda()).argmax(1) == y.cuda()).sum().item())
