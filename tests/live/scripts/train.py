"""A training script that knows of no budget: attention, AdamW, on the GPU in mixed precision with a scaler."""

import argparse

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
if not args.compile and hasattr(torch.backends, "fp32_precision"):
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # the getters of older settings raise from now on
layers = (nn.TransformerEncoderLayer(args.width, 4, 2 * args.width, batch_first=True) for _ in range(4))
model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(args.device)
if args.compile:
    model = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(args.device, enabled=args.device == "cuda")
for _ in range(6):
    x = torch.randn(8, 128, args.width, device=args.device)
    y = torch.randint(0, 10, (8, 128), device=args.device)
    with torch.autocast(args.device, torch.float16, enabled=args.device == "cuda"):
        loss = functional.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(f"{loss.item():.9f}")
