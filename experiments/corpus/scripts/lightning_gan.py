"""Lightning with manual optimisation: two optimizers, toggled."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class GAN(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32))
        self.critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def training_step(self, batch, _):
        (real,) = batch
        first, second = self.optimizers()
        fake = self.generator(torch.randn(len(real), 16, device=self.device))
        self.toggle_optimizer(first)
        self.manual_backward(-self.critic(fake).mean())
        first.step()
        first.zero_grad()
        self.untoggle_optimizer(first)
        self.toggle_optimizer(second)
        self.manual_backward((self.critic(fake.detach()) - self.critic(real)).mean())
        second.step()
        second.zero_grad()
        self.untoggle_optimizer(second)

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters()), torch.optim.Adam(self.critic.parameters())


if __name__ == "__main__":
    trainer = lightning.Trainer(
        max_steps=6,
        accelerator="gpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(GAN(), DataLoader(TensorDataset(torch.randn(256, 32)), batch_size=64))
