"""Lightning Fabric: a loop of one's own with its backward pass and precision."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

fabric = lightning.Fabric(accelerator="cuda", devices=1, precision="bf16-mixed")
fabric.launch()
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters()))
loader = fabric.setup_dataloaders(
    DataLoader(TensorDataset(torch.randn(256, 64), torch.randint(10, (256,))), batch_size=64)
)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()
