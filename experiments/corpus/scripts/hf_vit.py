"""A vision transformer under AMP in half precision, mixed images."""

import torch
from transformers import ViTConfig, ViTForImageClassification

config = ViTConfig(
    hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, image_size=64, num_labels=10
)
model = ViTForImageClassification(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
scaler = torch.amp.GradScaler()
for _ in range(3):
    x, y = torch.randn(8, 3, 64, 64).cuda(), torch.randint(10, (8,)).cuda()
    share = torch.distributions.Beta(0.8, 0.8).sample().item()
    with torch.autocast("cuda", torch.float16):
        out = model(pixel_values=share * x + (1 - share) * x.flip(0)).logits
        loss = share * torch.nn.functional.cross_entropy(out, y)
        loss = loss + (1 - share) * torch.nn.functional.cross_entropy(out, y.flip(0))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
