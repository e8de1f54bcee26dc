"""timm: a ResNet with its optimizer's factory, mixed images, an average of the model."""

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV2

model = timm.create_model("resnet18", num_classes=10, drop_path_rate=0.1).cuda()
average = ModelEmaV2(model)
optimizer = create_optimizer_v2(model, opt="lamb", lr=5e-3, weight_decay=0.02)
mixed, criterion = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, num_classes=10), SoftTargetCrossEntropy()
for _ in range(2):
    x, y = mixed(torch.randn(4, 3, 64, 64).cuda(), torch.randint(10, (4,)).cuda())
    criterion(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    average.update(model)
