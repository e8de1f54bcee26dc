"""Latent diffusion: a frozen autoencoder and text encoder, a conditioned U-Net under bf16 autocast."""

import torch
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

vae = AutoencoderKL(
    block_out_channels=(16, 32),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    norm_num_groups=8,
).cuda()
text = CLIPTextModel(
    CLIPTextConfig(vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
).cuda()
unet = UNet2DConditionModel(
    sample_size=16,
    block_out_channels=(32, 64),
    layers_per_block=1,
    cross_attention_dim=32,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
).cuda()
vae.requires_grad_(False)
text.requires_grad_(False)
unet.enable_gradient_checkpointing()
noising, optimizer = DDPMScheduler(), torch.optim.AdamW(unet.parameters(), lr=1e-5)
for _ in range(2):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        latents = vae.encode(torch.randn(2, 3, 32, 32, device="cuda")).latent_dist.sample() * 0.18215
        noise, t = torch.randn_like(latents), torch.randint(1000, (2,), device="cuda")
        words = text(torch.randint(300, (2, 16), device="cuda"))[0]
        out = unet(noising.add_noise(latents, noise, t), t, words).sample
        loss = torch.nn.functional.mse_loss(out.float(), noise.float())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
