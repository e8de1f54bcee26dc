"""A ControlNet beside a frozen U-Net."""

import torch
from diffusers import ControlNetModel, UNet2DConditionModel

unet = UNet2DConditionModel(
    sample_size=16,
    block_out_channels=(32, 64),
    layers_per_block=1,
    cross_attention_dim=32,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
).cuda()
control = ControlNetModel.from_unet(unet, conditioning_channels=3).cuda()
unet.requires_grad_(False)
optimizer = torch.optim.AdamW(control.parameters(), lr=1e-5)
for _ in range(2):
    x, words = torch.randn(2, 4, 16, 16, device="cuda"), torch.randn(2, 8, 32, device="cuda")
    t, picture = torch.randint(1000, (2,), device="cuda"), torch.rand(2, 3, 128, 128, device="cuda")
    down, middle = control(x, t, words, controlnet_cond=picture, return_dict=False)
    out = unet(x, t, words, down_block_additional_residuals=down, mid_block_additional_residual=middle).sample
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
