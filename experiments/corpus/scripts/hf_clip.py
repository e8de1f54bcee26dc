"""CLIP: two towers, a contrastive loss, a temperature that is trained."""

import torch
from transformers import CLIPConfig, CLIPModel

small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
text = small | {"vocab_size": 300, "eos_token_id": 299, "max_position_embeddings": 24}
vision = small | {"image_size": 32, "patch_size": 8}
model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=64)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2)
for _ in range(3):
    ids, images = torch.randint(300, (8, 24), device="cuda"), torch.randn(8, 3, 32, 32, device="cuda")
    model(input_ids=ids, pixel_values=images, return_loss=True).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6)
