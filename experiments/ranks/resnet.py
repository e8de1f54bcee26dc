"""Train a ResNet-50 for three steps by DDP: SGD, bf16 by autocast, 64 images of 224 x 224 a rank."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import ResNetConfig, ResNetForImageClassification

BATCH, CLASSES, STEPS = 64, 1000, 3

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
model = ResNetForImageClassification(ResNetConfig(num_labels=CLASSES)).to(local)  # its default is the ResNet-50
model = DistributedDataParallel(model, device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for _ in range(STEPS):
    images = torch.randn(BATCH, 3, 224, 224).to(local, non_blocking=True)
    labels = torch.randint(0, CLASSES, (BATCH,)).to(local)
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images).logits, labels)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
