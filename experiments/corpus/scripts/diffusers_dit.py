"""A diffusion transformer on latents, with classes."""

import torch
from diffusers import DDPMScheduler, DiTTransformer2DModel

model = DiTTransformer2DModel(
    num_attention_heads=4, attention_head_dim=16, in_channels=4, out_channels=4, num_layers=2, sample_size=16
).cuda()
noising, optimizer = DDPMScheduler(), torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
for _ in range(3):
    x = torch.randn(4, 4, 16, 16, device="cuda")
    noise, t = torch.randn_like(x), torch.randint(1000, (4,), device="cuda")
    out = model(noising.add_noise(x, noise, t), t, class_labels=torch.randint(1000, (4,), device="cuda")).sample
    torch.nn.functional.mse_loss(out, noise).backward()
    optimizer.step()
    optimizer.zero_grad()
