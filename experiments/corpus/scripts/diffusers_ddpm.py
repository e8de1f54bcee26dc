"""Unconditional diffusion: a U-Net that predicts noise, an exponential average of it."""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

model = UNet2DModel(
    sample_size=32,
    block_out_channels=(32, 64),
    layers_per_block=1,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
).cuda()
noising = DDPMScheduler(num_train_timesteps=1000)
average = EMAModel(model.parameters(), use_ema_warmup=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    x = torch.randn(4, 3, 32, 32).cuda()
    noise, t = torch.randn_like(x), torch.randint(1000, (4,), device="cuda")
    loss = torch.nn.functional.mse_loss(model(noising.add_noise(x, noise, t), t).sample, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    average.step(model.parameters())
