"""timm: a Swin transformer that learns from a frozen network, with recomputation."""

import timm
import torch

student = timm.create_model("swin_tiny_patch4_window7_224", img_size=56, embed_dim=24, num_classes=10).cuda()
student.set_grad_checkpointing()
teacher = timm.create_model("resnet18", num_classes=10).cuda().eval()
optimizer = torch.optim.AdamW(student.parameters())
for _ in range(2):
    x = torch.randn(2, 3, 56, 56, device="cuda")
    with torch.no_grad():
        wanted = teacher(x).softmax(1)
    torch.nn.functional.cross_entropy(student(x), wanted).backward()
    optimizer.step()
    optimizer.zero_grad()
