"""A vision transformer under AMP with a GradScaler."""

import sys

import torch
from transformers import ViTConfig, ViTForImageClassification

config = ViTConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536)
model = ViTForImageClassification(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    images = torch.randn(int(sys.argv[1]), 3, 224, 224, device="cuda")
    labels = torch.randint(0, 2, (len(images),), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(pixel_values=images, labels=labels).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=False)
