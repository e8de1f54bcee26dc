"""timm: ConvNeXt, channels last, AMP in bfloat16, layer-wise learning rates."""

import timm
import torch
from timm.optim import create_optimizer_v2

model = timm.create_model("convnext_atto", num_classes=10).cuda().to(memory_format=torch.channels_last)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.8)
for _ in range(2):
    x = torch.randn(2, 3, 64, 64, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), torch.zeros(2, device="cuda").long())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
