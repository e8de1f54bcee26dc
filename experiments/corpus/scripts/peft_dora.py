"""DoRA on all linear layers of a vision transformer, whose head is trained whole."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import ViTConfig, ViTForImageClassification

config = ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32)
lora = LoraConfig(r=4, use_dora=True, target_modules="all-linear", modules_to_save=["classifier"])
model = get_peft_model(ViTForImageClassification(config), lora).cuda()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for _ in range(3):
    loss = model(
        pixel_values=torch.randn(4, 3, 32, 32, device="cuda"), labels=torch.zeros(4, device="cuda").long()
    ).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
