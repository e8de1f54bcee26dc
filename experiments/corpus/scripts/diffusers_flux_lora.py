"""Flow matching on a small Flux transformer with LoRA."""

import torch
from diffusers import FluxTransformer2DModel
from peft import LoraConfig

model = FluxTransformer2DModel(
    in_channels=16,
    num_layers=1,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=4,
    joint_attention_dim=32,
    pooled_projection_dim=32,
    axes_dims_rope=(4, 4, 8),
).to("cuda", torch.bfloat16)
model.requires_grad_(False)
model.add_adapter(LoraConfig(r=4, target_modules=["to_q", "to_k", "to_v", "to_out.0"]))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
half = {"device": "cuda", "dtype": torch.bfloat16}
for _ in range(2):
    x, noise, t = torch.randn(2, 64, 16, **half), torch.randn(2, 64, 16, **half), torch.rand(2, **half)
    at = t[:, None, None]
    out = model(
        hidden_states=(1 - at) * x + at * noise,
        encoder_hidden_states=torch.randn(2, 12, 32, **half),
        pooled_projections=torch.randn(2, 32, **half),
        timestep=t,
        img_ids=torch.zeros(64, 3, **half),
        txt_ids=torch.zeros(12, 3, **half),
        return_dict=False,
    )[0]
    (out - (noise - x)).float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
