"""SegFormer: a pyramid of transformers, pixels that are ignored."""

import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation

config = SegformerConfig(
    hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32
)
config.num_labels = 5
model = SegformerForSemanticSegmentation(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-5)
for _ in range(3):
    labels = torch.randint(5, (2, 64, 64), device="cuda")
    labels[:, :4] = 255
    model(pixel_values=torch.randn(2, 3, 64, 64, device="cuda"), labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
